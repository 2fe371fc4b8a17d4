package ephemeralrunnerset

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

// What is logged of a call to GitHub is found by the scale set, as users know it, and not by the set that belongs to it.
func TestQuestionsAreLoggedByScaleSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})))
		defer cancel()
		workers := pool.New(1, clock.RealClock{})
		go func() { _ = workers.Start(ctx) }()
		q := newQuestions(Options{Pool: workers, Clock: clock.RealClock{}, GitHub: func(ctx context.Context, _ credentials.Reference) (GitHub, error) {
			log.FromContext(ctx).Info("asked")
			return nil, context.Canceled
		}}, func(types.NamespacedName) {})
		q.ask(&v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "linux-x7k2p", Labels: map[string]string{
			v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelScaleSetNamespace: "runners",
		}}}, newHistory(), &plan{deregister: []*runnerView{{name: "linux-x7k2p-runner-abcde", uid: "1"}}})
		synctest.Wait()
		if all := strings.Join(logged, "\n"); !strings.Contains(all, `"scaleSet"="runners/linux" "runner"="linux-x7k2p-runner-abcde"`) {
			t.Errorf("logged %s", all)
		}
	})
}
