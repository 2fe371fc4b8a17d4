package kube

import (
	"testing"
	"time"
)

func TestEarlierOfTwoMoments(t *testing.T) {
	var never time.Time
	soon := time.Now()
	late := soon.Add(time.Second)
	for name, test := range map[string]struct{ a, b, want time.Time }{
		"the first":          {soon, late, soon},
		"the second":         {late, soon, soon},
		"never is no moment": {never, late, late},
		"on either side":     {late, never, late},
		"never at all":       {never, never, never},
	} {
		if got := EarlierOf(test.a, test.b); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
