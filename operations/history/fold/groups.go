package fold

import (
	"maps"
	"slices"
)

// Groups are the sums of an answer, by what they are added up by. Of a question over a long time there may be many
// times the groups that are answered, and they come in any order.
type Groups[K comparable, S any] struct {
	most   int
	rules  Rules[S]
	others *K
	kept   map[K]S
}

// groupSlack is how many times the groups of an answer are held while it is read.
const groupSlack = 4

// NewGroups returns no groups, of which at most so many are answered. Further ones become others or, if that is nil,
// are left out.
func NewGroups[K comparable, S any](most int, others *K, rules Rules[S]) *Groups[K, S] {
	return &Groups[K, S]{most: most, rules: rules, others: others, kept: map[K]S{}}
}

// Of returns the sums of a group, to be added to before the next call.
func (g *Groups[K, S]) Of(key K) S {
	if _, known := g.kept[key]; !known && len(g.kept) >= groupSlack*g.most {
		g.Largest(func(a, b S) int { return int(min(1, max(-1, g.rules.Weight(b)-g.rules.Weight(a)))) })
	}
	if _, known := g.kept[key]; !known {
		g.kept[key] = g.rules.New()
	}
	return g.kept[key]
}

// Held returns the number of groups that are in memory.
func (g *Groups[K, S]) Held() int { return len(g.kept) }

// Sums returns the sums of a group that is kept.
func (g *Groups[K, S]) Sums(key K) S { return g.kept[key] }

// Largest returns the groups that are kept in an order of their sums, at most so many with the others.
func (g *Groups[K, S]) Largest(order func(a, b S) int) []K {
	keys := slices.SortedStableFunc(maps.Keys(g.kept), func(a, b K) int { return order(g.kept[a], g.kept[b]) })
	if len(keys) <= g.most {
		return keys
	}
	room := g.most
	if g.others != nil {
		room--
	}
	left := make([]K, 0, g.most)
	for _, key := range keys {
		switch {
		case g.others != nil && key == *g.others: // last
		case len(left) < room:
			left = append(left, key)
		default:
			if g.others != nil {
				if _, known := g.kept[*g.others]; !known {
					g.kept[*g.others] = g.rules.New()
				}
				g.rules.Merge(g.kept[*g.others], g.kept[key])
			}
			delete(g.kept, key)
		}
	}
	if g.others != nil {
		left = append(left, *g.others)
	}
	return left
}
