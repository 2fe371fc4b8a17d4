package housekeeping_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/operations/history/watch/housekeeping"
)

// bubble runs a test with tasks in fake time; they end with the test.
func bubble(t *testing.T, test func(t *testing.T, tasks *housekeeping.Tasks, failures map[string]int)) {
	synctest.Test(t, func(t *testing.T) {
		failures := map[string]int{}
		tasks := &housekeeping.Tasks{Clock: clock.RealClock{}, Log: logr.Discard(),
			Failed: func(task string) { failures[task]++ }}
		test(t, tasks, failures)
	})
}

// counted is a task that counts how often it has been done.
func counted(name string, every time.Duration, done *int) housekeeping.Task {
	return housekeeping.Task{Name: name, Every: every, Timeout: time.Minute,
		Do: func(context.Context, time.Time) error { *done++; return nil }}
}

// TestNoTaskStopsAnother has one task fail, one wait for its deadline and one wait for ever, whatever its context says.
func TestNoTaskStopsAnother(t *testing.T) {
	bubble(t, func(t *testing.T, tasks *housekeeping.Tasks, failures map[string]int) {
		release := make(chan struct{})
		fails, waits, deaf, seconds, minutes := 0, 0, 0, 0, 0
		tasks.Add(housekeeping.Task{Name: "fails", Every: time.Minute, Timeout: time.Minute,
			Do: func(context.Context, time.Time) error { fails++; return errors.New("no") }})
		tasks.Add(housekeeping.Task{Name: "waits", Every: time.Minute, Timeout: 5 * time.Minute,
			Do: func(ctx context.Context, _ time.Time) error { waits++; <-ctx.Done(); return ctx.Err() }})
		tasks.Add(housekeeping.Task{Name: "deaf", Every: time.Minute, Timeout: time.Minute,
			Do: func(context.Context, time.Time) error { deaf++; <-release; return nil }})
		tasks.Add(counted("seconds", 0, &seconds))
		tasks.Add(counted("minutes", time.Minute, &minutes))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour+time.Second/2)
		defer cancel()
		tasks.Run(ctx)
		close(release)
		synctest.Wait()
		if seconds != 3600 || minutes != 60 {
			t.Errorf("in an hour the others were done %d times each second and %d times each minute", seconds, minutes)
		}
		if fails < 100 || fails > 130 || failures["fails"] != fails { // 1, 2, 4, 8, 16 s, and then each 30 s
			t.Errorf("what fails was tried %d times, and failed %d times", fails, failures["fails"])
		}
		if waits != 12 || failures["waits"] < 11 {
			t.Errorf("what waits for its deadline was tried %d times, and failed %d times", waits, failures["waits"])
		}
		if deaf != 1 {
			t.Errorf("what doesn't end was begun %d times", deaf)
		}
	})
}

// TestHealthIsThatOfTheTasks has a task fail in each way for so many minutes, and asks for the health each minute.
func TestHealthIsThatOfTheTasks(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	fail := func(context.Context) error { return errors.New("no") }
	timeout := func(context.Context) error { return context.DeadlineExceeded }
	deaf := func(context.Context) error { <-time.After(30 * time.Minute); return nil }
	for name, test := range map[string]struct {
		vital  bool
		how    func(context.Context) error
		length time.Duration
		ill    bool
	}{
		"a vital task fails for a while":       {true, fail, 10 * time.Minute, false},
		"a vital task fails for too long":      {true, fail, 30 * time.Minute, true},
		"a vital task hangs for too long":      {true, hang, 30 * time.Minute, true},
		"another task fails for long":          {false, fail, 10 * time.Hour, false},
		"another task hangs for a while":       {false, hang, 10 * time.Minute, false},
		"another task hangs for too long":      {false, hang, 30 * time.Minute, true},
		"each of its calls hangs":              {false, timeout, 30 * time.Minute, true},
		"a task hangs whatever its context is": {false, deaf, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tasks *housekeeping.Tasks, _ map[string]int) {
				began, done := time.Now(), 0
				tasks.Add(counted("good", time.Hour, &done))
				tasks.Add(housekeeping.Task{Name: "task", Every: time.Minute, Timeout: 30 * time.Second, Vital: test.vital,
					Do: func(ctx context.Context, _ time.Time) error {
						if time.Since(began) < test.length {
							return test.how(ctx)
						}
						return nil
					}})
				ill := false
				ctx, cancel := context.WithTimeout(t.Context(), test.length+time.Hour)
				defer cancel()
				var asking sync.WaitGroup
				asking.Go(func() {
					for ctx.Err() == nil {
						ill = ill || tasks.Health() != nil
						<-time.After(time.Minute)
					}
				})
				tasks.Run(ctx)
				asking.Wait()
				if ill != test.ill {
					t.Errorf("it was ill: %v", ill)
				}
				if err := tasks.Health(); err != nil {
					t.Errorf("in the end it is not well: %v", err)
				}
			})
		})
	}
}

func TestAClockThatIsSetBackNeitherStopsNorIsIllness(t *testing.T) {
	bubble(t, func(t *testing.T, _ *housekeeping.Tasks, _ map[string]int) {
		clock, done := &shifted{}, 0
		tasks := &housekeeping.Tasks{Clock: clock, Log: logr.Discard(), Failed: func(string) {}}
		tasks.Add(counted("task", time.Hour, &done))
		tasks.Step(t.Context())
		clock.by = -5 * time.Hour
		tasks.Step(t.Context())
		if done != 2 || tasks.Health() != nil {
			t.Errorf("it was done %d times, and the health is %v", done, tasks.Health())
		}
	})
}

// shifted is a clock that somebody has set.
type shifted struct {
	clock.RealClock
	by time.Duration
}

func (s *shifted) Now() time.Time { return time.Now().Add(s.by) }
