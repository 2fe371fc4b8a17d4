package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// WriteJSON writes a document, indented if it is for people to read as well.
func WriteJSON(to io.Writer, document any, indented bool) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if indented {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(document); err != nil {
		return err
	}
	_, err := io.WriteString(to, escaped(text.String()))
	return err
}

// escaped has JSON's escapes for what can't be printed or would be a command. In JSON such characters are only parts of
// strings, except for the ends of lines.
func escaped(text string) string {
	var safe strings.Builder
	last := rune(0)
	for _, r := range text {
		if (r == '\n' || unicode.IsPrint(r)) && (r != '#' || last != '#') {
			safe.WriteRune(r)
		} else {
			safe.WriteString(escape(r))
		}
		last = r
	}
	return safe.String()
}

// MarshalYAML returns a document with the same strings as yaml.Marshal would write. Those that have something that can't
// be printed, or that could be a command where a line begins with it, are quoted, with escapes.
func MarshalYAML(document any) ([]byte, error) {
	content, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	m := &marks{prefix: "escaped-"}
	for bytes.Contains(content, []byte(m.prefix)) {
		m.prefix += "-"
	}
	marked, err := yaml.Marshal(m.put(tree))
	if err != nil {
		return nil, err
	}
	return m.replace(marked), nil
}

// marks stand in a document for strings while it is written. yaml.Marshal would leave directions of writing as they are,
// and begin lines inside of strings.
type marks struct {
	// prefix begins a mark, and is nowhere else in the document.
	prefix string
	texts  []string
}

// longKey is more than YAML lets a key have that is written on its line.
const longKey = 128

// put returns the value with a mark in the place of each string that needs one.
func (m *marks) put(value any) any {
	switch value := value.(type) {
	case map[string]any:
		marked := map[string]any{}
		for key, inside := range value {
			if mark := m.mark(key); len(key) > longKey && mark != key {
				marked[mark+strings.Repeat("-", longKey)] = m.put(inside) // a key that is as long, before : of its own
			} else {
				marked[mark] = m.put(inside)
			}
		}
		return marked
	case []any:
		for i := range value {
			value[i] = m.put(value[i])
		}
		return value
	case string:
		return m.mark(value)
	}
	return value
}

func (m *marks) mark(text string) string {
	plain := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }
	if !strings.Contains(text, "::") && !strings.Contains(text, "##") &&
		strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	m.texts = append(m.texts, text)
	return m.prefix + strconv.Itoa(len(m.texts)-1)
}

// replace puts the strings in the place of their marks, quoted as YAML has it.
func (m *marks) replace(marked []byte) []byte {
	pattern := regexp.MustCompile(regexp.QuoteMeta(m.prefix) + `([0-9]+)-*`)
	return pattern.ReplaceAllFunc(marked, func(mark []byte) []byte {
		number, err := strconv.Atoi(string(pattern.FindSubmatch(mark)[1]))
		if err != nil { // it is one of ours
			return mark
		}
		return []byte(quotedYAML(m.texts[number]))
	})
}

// quotedYAML returns a string in double quotes on one line.
func quotedYAML(text string) string {
	var quoted strings.Builder
	last := rune(0)
	quoted.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			quoted.WriteString(`\` + string(r))
		case unicode.IsPrint(r) && (r != '#' || last != '#'):
			quoted.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&quoted, `\U%08x`, r)
		default:
			quoted.WriteString(escape(r))
		}
		last = r
	}
	quoted.WriteByte('"')
	return quoted.String()
}
