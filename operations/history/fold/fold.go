// Package fold bounds the kinds of jobs that the ledger keeps sums of. Whoever writes a workflow names its jobs, and
// may name each differently (`test ${{ github.sha }}`), so the number of names says nothing about how much there is to
// know. What exceeds the bound is folded: sums of several kinds become those of one, whose name is Others. Nothing is
// left out, so that totals stay exact.
//
// Shares are fair: whoever has many kinds loses them first. A repository loses none to another one, nor a workflow to
// another one of its repository, unless it has more than its own share.
package fold

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
)

// Others stands in the place of names that are not kept. A job that is really named so counts among them.
const Others = "(others)"

// Kind is what is common to jobs of a scale set that are added up together. If its workflow is Others, so is its name;
// if its repository is, all are.
type Kind struct{ Repository, Workflow, Name string }

// Folded reports whether the kind stands for several.
func (k Kind) Folded() bool { return k.Name == Others }

func (k Kind) compare(other Kind) int {
	return cmp.Or(cmp.Compare(k.Repository, other.Repository), cmp.Compare(k.Workflow, other.Workflow),
		cmp.Compare(k.Name, other.Name))
}

// Kinds are the sums of a scale set in a period, by kind.
type Kinds[S any] struct {
	most  int
	rules Rules[S]
	kept  map[Kind]S
}

// Rules say what sums are.
type Rules[S any] struct {
	New func() S
	// Merge adds sums to others.
	Merge func(into, from S)
	// Weight says how much there is to know of a kind: the lightest are folded first.
	Weight func(S) int64
}

// slack is how many times the kinds that are kept are held while they are added up, so that they are seldom shrunk.
const slack = 2

// New returns no kinds, of which at most so many are kept, and slack times as many are in memory.
func New[S any](most int, rules Rules[S]) *Kinds[S] {
	return &Kinds[S]{most: most, rules: rules, kept: map[Kind]S{}}
}

// Of returns the sums of a kind, to be added to before the next call.
func (k *Kinds[S]) Of(kind Kind) S {
	switch Others {
	case kind.Repository:
		kind = Kind{Others, Others, Others}
	case kind.Workflow:
		kind = Kind{kind.Repository, Others, Others}
	}
	if _, known := k.kept[kind]; !known && len(k.kept) >= slack*k.most {
		k.shrink() // which may make this very kind, if it is one of others
	}
	if _, known := k.kept[kind]; !known {
		k.kept[kind] = k.rules.New()
	}
	return k.kept[kind]
}

// Held returns the number of kinds that are in memory.
func (k *Kinds[S]) Held() int { return len(k.kept) }

// All returns the kinds that are kept with their sums, the heaviest first.
func (k *Kinds[S]) All() iter.Seq2[Kind, S] {
	k.shrink()
	kinds := slices.SortedFunc(maps.Keys(k.kept), k.heaviestFirst)
	return func(yield func(Kind, S) bool) {
		for _, kind := range kinds {
			if !yield(kind, k.kept[kind]) {
				return
			}
		}
	}
}

func (k *Kinds[S]) heaviestFirst(a, b Kind) int {
	return cmp.Or(cmp.Compare(k.rules.Weight(k.kept[b]), k.rules.Weight(k.kept[a])), a.compare(b))
}

// shrink folds kinds until no more are left than may be kept. At most half of them are of different repositories, so
// that each repository has room for a name and for the others of its names.
func (k *Kinds[S]) shrink() {
	if len(k.kept) <= k.most {
		return
	}
	repositories := k.divide(slices.Collect(maps.Keys(k.kept)), func(kind Kind) string { return kind.Repository })
	repositories = k.limit(repositories, k.most/2, Kind{Others, Others, Others})
	share := fairShare(repositories, k.most)
	for _, repository := range repositories {
		if len(repository.kinds) > share {
			k.shrinkRepository(repository, share)
		}
	}
}

// shrinkRepository folds kinds of a repository until it has no more than its share. At most half of them are of
// different workflows.
func (k *Kinds[S]) shrinkRepository(repository part, most int) {
	workflows := k.divide(repository.kinds, func(kind Kind) string { return kind.Workflow })
	workflows = k.limit(workflows, most/2, Kind{repository.name, Others, Others})
	share := fairShare(workflows, most)
	for _, workflow := range workflows {
		if len(workflow.kinds) > share {
			names := k.divide(workflow.kinds, func(kind Kind) string { return kind.Name })
			k.limit(names, share, Kind{repository.name, workflow.name, Others})
		}
	}
}

// part are the kinds that have a name in common.
type part struct {
	name   string
	kinds  []Kind
	weight int64
}

// divide returns the kinds by a name, the heaviest first.
func (k *Kinds[S]) divide(kinds []Kind, by func(Kind) string) []part {
	parts := map[string]*part{}
	for _, kind := range kinds {
		name := by(kind)
		if parts[name] == nil {
			parts[name] = &part{name: name}
		}
		parts[name].kinds = append(parts[name].kinds, kind)
		parts[name].weight += k.rules.Weight(k.kept[kind])
	}
	sorted := make([]part, 0, len(parts))
	for _, part := range parts {
		sorted = append(sorted, *part)
	}
	slices.SortFunc(sorted, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	return sorted
}

// limit folds the lightest parts into one kind, so that there are at most so many with that, and returns what is left.
func (k *Kinds[S]) limit(parts []part, most int, into Kind) []part {
	if len(parts) <= max(1, most) {
		return parts
	}
	left, room := []part{}, max(1, most)-1
	for _, part := range parts {
		if part.name != Others && len(left) < room {
			left = append(left, part)
			continue
		}
		for _, kind := range part.kinds {
			k.fold(kind, into)
		}
	}
	return append(left, part{name: Others, kinds: []Kind{into}})
}

func (k *Kinds[S]) fold(kind, into Kind) {
	if kind == into {
		return
	}
	from := k.kept[kind]
	delete(k.kept, kind)
	if _, known := k.kept[into]; !known {
		k.kept[into] = k.rules.New()
	}
	k.rules.Merge(k.kept[into], from)
}

// fairShare returns the largest number of kinds that each part may keep so that all keep at most so many together:
// parts with fewer kinds leave their room to the others.
func fairShare(parts []part, most int) int {
	sizes := make([]int, len(parts))
	for i := range parts {
		sizes[i] = len(parts[i].kinds)
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if among := len(sizes) - i; size*among > most {
			return max(1, most/among)
		}
		most -= size
	}
	return math.MaxInt // all fit
}
