package offers

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/errand"
	"github.com/harrier-ci/harrier/internal/listener/listenertest"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func newOffers(waiting ...int64) Offers {
	o := New(errand.New(time.Second, time.Minute), errand.New(time.Second, time.Minute))
	o.NewSession()
	o.Waiting = waiting
	return o
}

func open(requestIDs ...int64) (jobs []actions.JobAvailable) {
	for _, id := range requestIDs {
		jobs = append(jobs, actions.JobAvailable{JobMessageBase: listenertest.Job(id)})
	}
	return jobs
}

func nobodys(int64) bool { return false }

func TestOffersAreKeptOnceAndInOrder(t *testing.T) {
	o := newOffers()
	o.Update(listenertest.Message(1, 0, "offer 3", "offer 1", "offer 3", "offer 2"))
	taken := o.Request(1)
	o.Update(listenertest.Message(2, 0, "offer 3"))
	if diff := cmp.Diff([]int64{3}, taken); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{1, 2}, o.Waiting); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	o.PutBack()
	o.Update(listenertest.Message(1, 0, "assign 1", "offer 4"))
	if diff := cmp.Diff([]int64{3, 2, 4}, o.Waiting); diff != "" {
		t.Errorf("waiting after a message (-want +got):\n%s", diff)
	}
	if taken := o.Request(-2); len(taken) != 0 || o.UnderWay {
		t.Errorf("took %v without room", taken)
	}
}

// Whichever offers GitHub refuses, with them all that were requested together: the others are acquired, and each
// refused one costs a few requests, at most the square of the number of times that the number of offers can be halved.
func TestOffersThatGitHubRefuses(t *testing.T) {
	const count, most = 10, 16 // 10 can be halved three times; three and the request of all of them, squared
	for refused := range 1 << count {
		refuses := func(id int64) bool { return refused&(1<<id) != 0 }
		var o Offers
		for id := range int64(count) {
			o.Update(listenertest.Message(1, 0, fmt.Sprint("offer ", id)))
		}
		requests, dropped := 0, 0
		for len(o.Waiting) > 0 && requests <= count*most {
			requests++
			switch requested := o.Request(count); {
			case !slices.ContainsFunc(requested, refuses):
				o.Settle()
			case o.Refused(now):
				dropped++
			}
		}
		bad := bits.OnesCount(uint(refused))
		if dropped != bad || len(o.Waiting) != 0 || requests > 1+bad*most {
			t.Fatalf("%010b: %d of %d dropped in %d requests, %d wait", refused, dropped, bad, requests, len(o.Waiting))
		}
	}
}

// The first refusal may mean that offers were withdrawn, so GitHub is asked which are open; if those listed are refused
// as well, only every minute.
func TestWhenARefusalMakesASearchDue(t *testing.T) {
	o := newOffers(1, 2, 3)
	for _, test := range []struct {
		name     string
		after    time.Duration
		answered bool
		want     bool
	}{
		{"the first", 0, false, true},
		{"the next", time.Second, false, false},
		{"a minute later", countedInterval, false, true},
		{"the first after an answer", countedInterval, true, true},
	} {
		o.BeginSearch(now)
		o.Search.End()
		o.Waiting = []int64{1, 2, 3}
		o.Request(len(o.Waiting))
		if test.answered {
			o.Settle()
			o.Waiting = []int64{1, 2, 3}
			o.Request(len(o.Waiting))
		}
		if o.Refused(now.Add(test.after)); o.Search.Due != test.want {
			t.Errorf("%s: due is %t, want %t", test.name, o.Search.Due, test.want)
		}
	}
	o.Waiting = []int64{1}
	o.Request(1)
	o.Search.Due = false
	if dropped := o.Refused(now.Add(time.Hour)); !dropped || o.Search.Due {
		t.Errorf("the last offer: dropped %t, a search due %t; want it dropped and none", dropped, o.Search.Due)
	}
}

// What a search lists is open, and what it leaves out is not, unless GitHub counts more than it lists: then the list
// lags or is one page, or the service lists none any more. What came during the call may be too new for its answer, and
// what is ours is no offer.
func TestWhatASearchFinds(t *testing.T) {
	for name, test := range map[string]struct {
		waiting, during, found []int64
		counted                int
		want                   []int64
	}{
		"new ones":                   {nil, nil, []int64{1, 2}, 2, []int64{1, 2}},
		"withdrawn":                  {[]int64{1, 2, 3}, nil, []int64{2}, 1, []int64{2}},
		"all withdrawn":              {[]int64{1, 2}, nil, nil, 0, nil},
		"a list that lags":           {[]int64{1, 2}, nil, nil, 2, []int64{1, 2}},
		"too new for the answer":     {[]int64{1}, []int64{4}, nil, 0, []int64{4}},
		"ours already":               {nil, nil, []int64{1, 9}, 1, []int64{1}},
		"more than GitHub counts":    {[]int64{1}, nil, []int64{1, 2, 3}, 1, []int64{1, 2, 3}},
		"one page of what it counts": {[]int64{1, 5}, nil, []int64{1, 2}, 9, []int64{1, 5, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffers(test.waiting...)
			asked := o.BeginSearch(now)
			o.Waiting = append(o.Waiting, test.during...)
			o.Search.End()
			o.Found(open(test.found...), asked, func(id int64) bool { return id == 9 }, test.counted)
			if diff := cmp.Diff(test.want, o.Waiting, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
		})
	}
}

// Searches because of GitHub's count are a minute apart, and there are none where the service has no such call, until
// the next session.
func TestWhenASearchIsDue(t *testing.T) {
	o := newOffers(1)
	if !o.Search.Due {
		t.Error("none is due at the beginning of a session")
	}
	asked := o.BeginSearch(now)
	o.Search.End()
	o.Found(open(1), asked, nobodys, 1)
	for name, test := range map[string]struct {
		counted int
		after   time.Duration
		want    bool
	}{
		"all known":    {1, time.Hour, false},
		"none counted": {0, time.Hour, false},
		"too soon":     {2, countedInterval - 1, false},
		"one unknown":  {2, countedInterval, true},
	} {
		o.Search.Due = false
		if o.Counted(test.counted, now.Add(test.after)); o.Search.Due != test.want {
			t.Errorf("%s: due is %t, want %t", name, o.Search.Due, test.want)
		}
	}
	o.RememberLacking()
	o.SearchAgain()
	if o.Counted(5, now.Add(time.Hour)); o.Search.Due {
		t.Error("one is due although the service lacks the call")
	}
	if o.NewSession(); !o.Search.Due {
		t.Error("none is due in the next session")
	}
}
