package histogram_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/harrier-ci/harrier/operations/history/histogram"
)

func TestQuantilesAreAtMostFivePercentTooLarge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		figures := make([]int64, 1+random.IntN(500))
		whole, halves := histogram.Histogram{}, []histogram.Histogram{{}, {}}
		for i := range figures {
			figures[i] = int64(math.Exp(random.Float64() * 43))
			whole.Add(figures[i])
			halves[i%2].Add(figures[i])
		}
		slices.Sort(figures)
		for _, share := range []float64{0.5, 0.95, 1} {
			exact := figures[int(math.Ceil(share*float64(len(figures))))-1]
			got := whole.Quantile(share)
			if got < exact || float64(got) > float64(exact)*1.0501+1 {
				t.Fatalf("quantile %g of %d figures is %d, exactly %d", share, len(figures), got, exact)
			}
		}
		merged := histogram.Histogram{}
		for _, half := range halves {
			merged.Merge(half.String())
		}
		if merged.String() != whole.String() || merged.Count() != int64(len(figures)) {
			t.Fatalf("two halves make %s, the whole is %s", merged, whole)
		}
	}
}

func TestExtremesHaveBuckets(t *testing.T) {
	for figure, want := range map[int64]int64{-5: 0, 0: 0, 1: 1, 2: 2, math.MaxInt64: math.MaxInt64} {
		h := histogram.Histogram{}
		h.Add(figure)
		if got := h.Quantile(0.95); got != want {
			t.Errorf("the quantile of %d is %d, want %d", figure, got, want)
		}
	}
	if got := (histogram.Histogram{}).Quantile(0.95); got != 0 {
		t.Errorf("the quantile of nothing is %d", got)
	}
}

func TestWhatIsNoHistogramIsLeftOut(t *testing.T) {
	h := histogram.Histogram{}
	h.Merge("3:2 x:1 4 5:-1 99999:7 -7:2 :: 3:1")
	if got := h.String(); got != "3:3" {
		t.Errorf("read %q", got)
	}
}

func TestAListIsKeptAsOneText(t *testing.T) {
	first := histogram.NewList(3)
	first[0].Add(7)
	first[2].Add(0)
	again := histogram.NewList(3)
	again.Merge(first.String())
	again.Merge(first.String() + ";9:9;nonsense")
	again.Merge("")
	if again[0].Count() != 2 || again[1].Count() != 0 || again[2].Count() != 2 ||
		again[0].Quantile(0.5) != first[0].Quantile(0.5) {
		t.Errorf("%q and twice as much is %q", first, again)
	}
}
