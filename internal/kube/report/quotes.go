package report

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MaxQuoted is the number of characters that a message quotes of somebody else's text: half of what a message may have,
// so that the next step, which comes last, is never cut off.
const MaxQuoted = 512

// Abridged cuts the middle out of a text that is longer than MaxQuoted: it begins with what was tried and ends with the
// outcome.
func Abridged(text string) string {
	runes := []rune(text)
	if len(runes) <= MaxQuoted {
		return text
	}
	return string(runes[:MaxQuoted/2]) + "…" + string(runes[len(runes)-MaxQuoted/2:])
}

// SomeOf lists as many names as fit into MaxQuoted, at least one.
func SomeOf(names []string) string {
	text, shown := "", 0
	for _, name := range names {
		if shown > 0 && len(text)+len(name) > MaxQuoted {
			return fmt.Sprintf("%s and %d more", text, len(names)-shown)
		}
		if shown++; shown > 1 {
			text += ", "
		}
		text += name
	}
	return text
}

// NameOf returns kind, namespace and name of an object as messages show them.
func NameOf(c client.Client, object client.Object) string {
	return KindOf(c, object) + " " + client.ObjectKeyFromObject(object).String()
}

// KindOf returns the kind as messages show it.
func KindOf(c client.Client, object client.Object) string {
	kind, _ := c.GroupVersionKindFor(object) // no kind of ours is unknown to the scheme
	return kind.Kind
}
