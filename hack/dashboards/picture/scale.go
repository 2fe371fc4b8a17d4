package picture

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// niceStep returns 1, 2 or 5 times a power of ten, such that about the given number of steps reaches the top.
func niceStep(top float64, steps int) float64 {
	if top <= 0 {
		return 1
	}
	rough := top / float64(steps)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= rough*0.999 {
			return factor * power
		}
	}
	return 10 * power
}

// niceStepOf returns a nice step in the largest multiple of the unit that fits into the top: 20 MiB, not 19.07.
func niceStepOf(unit string, top float64, steps int) float64 {
	for _, scale := range scales[unit] {
		if one := scale.one(); top >= scale.from && one > 0 {
			return niceStep(top/one, steps) * one
		}
	}
	return niceStep(top, steps)
}

// niceTime returns the shortest usual duration that is at least the given one.
func niceTime(atLeast time.Duration) time.Duration {
	for _, span := range []time.Duration{10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute} {
		if span >= atLeast {
			return span
		}
	}
	return atLeast.Truncate(time.Hour) + time.Hour
}

// clockTime formats a duration as minutes and seconds.
func clockTime(since time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(since.Minutes()), int(since.Seconds())%60)
}

// scale is a multiple of a unit: the value from which it is used, and its suffix.
type scale struct {
	from   float64
	suffix string
}

// scales are the multiples of each unit, the largest first.
var scales = map[string][]scale{
	"short": {{1e6, " M"}, {1e3, " k"}, {0, ""}},
	"s":     {{2 * 86400, " d"}, {7200, " h"}, {120, " min"}, {1, " s"}, {0, " ms"}},
	"bytes": {{1 << 30, " GiB"}, {1 << 20, " MiB"}, {1 << 10, " KiB"}, {0, " B"}},
	"ops":   {{0, " /s"}},
}

// of has the value of a multiple by its suffix, unless that is where its scale begins.
var of = map[string]float64{" d": 86400, " h": 3600, " min": 60, " ms": 0.001, "": 1, " B": 1, " /s": 1}

func (s scale) one() float64 {
	if exact, ok := of[s.suffix]; ok {
		return exact
	}
	return s.from
}

// format writes a value with its unit, as precisely as the step between values requires.
func format(unit string, value, step float64) string {
	if value == 0 {
		return "0"
	}
	for _, scale := range scales[unit] {
		if math.Abs(value) >= scale.from {
			return rounded(value/scale.one(), step/scale.one()) + scale.suffix
		}
	}
	return rounded(value, step)
}

func rounded(value, step float64) string {
	digits := 0
	if step > 0 {
		digits = max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	}
	text := strconv.FormatFloat(value, 'f', min(digits, 3), 64)
	if short, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatFloat(short, 'f', -1, 64)
	}
	return text
}
