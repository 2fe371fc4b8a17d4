package rig

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// root is the module's directory, seen from a package two levels below it.
const root = "../.."

// controllerChart is the directory of this module's chart of the controller.
const controllerChart = root + "/charts/gha-runner-scale-set-controller"

// built has the paths of the product's programs.
type built struct{ manager, listener string }

// builds compile the programs a single time per test binary, with the race detector and without.
var builds = map[bool]func() (built, error){
	false: sync.OnceValues(func() (built, error) { return build(false) }),
	true:  sync.OnceValues(func() (built, error) { return build(true) }),
}

// build compiles the programs into bin/rig, where the next test binary finds them: linking takes 5 s of CPU, and go
// build doesn't repeat it for a program that is up to date.
func build(race bool) (_ built, err error) {
	directory, err := filepath.Abs(filepath.Join(root, "bin", "rig",
		fmt.Sprintf("race-%t-%s", race, cmp.Or(buildTag, "shipped"))))
	if err != nil {
		return built{}, fmt.Errorf("find the directory of the programs: %w", err)
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return built{}, fmt.Errorf("make the directory of the programs: %w", err)
	}
	turn, err := os.Create(directory + ".lock")
	if err != nil {
		return built{}, fmt.Errorf("take a turn at building the programs: %w", err)
	}
	defer func() { err = errors.Join(err, turn.Close()) }() // which ends the turn
	if err := syscall.Flock(int(turn.Fd()), syscall.LOCK_EX); err != nil {
		return built{}, fmt.Errorf("take a turn at building the programs: %w", err)
	}
	// Stripped as by make build: the shipped programs are measured. With -trimpath, too, Go would compile everything again
	// that it has compiled for the tests themselves, which takes ten minutes of CPU with the race detector.
	arguments := []string{"build", "-ldflags", "-s -w", "-o", directory + string(filepath.Separator)}
	if race {
		arguments = append(arguments, "-race")
	}
	command := exec.Command("go", append(arguments, "-tags", buildTag, "./cmd/manager", "./cmd/listener")...)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return built{}, fmt.Errorf("build the programs: %w\n%s", err, output)
	}
	return built{manager: filepath.Join(directory, "manager"), listener: filepath.Join(directory, "listener")}, nil
}

// orOurs fills empty fields with this module's charts and programs. These are built if one is needed.
func (p Product) orOurs(t testing.TB, race bool) Product {
	t.Helper()
	p.Controller = cmp.Or(p.Controller, controllerChart)
	p.Set = cmp.Or(p.Set, filepath.Join(root, "charts", "gha-runner-scale-set"))
	if p.Manager != "" && p.Listener != "" {
		return p
	}
	made, err := builds[race]()
	if err != nil {
		t.Fatal(err)
	}
	p.Manager, p.Listener = cmp.Or(p.Manager, made.manager), cmp.Or(p.Listener, made.listener)
	return p
}

// buildTag is the programs' build tag, empty for those that are shipped.
var buildTag string

// MainWithWrongClocks is Main with programs whose clock can be set wrong, see Rig.SetClock.
func MainWithWrongClocks(m *testing.M) int {
	buildTag = "rig"
	return Main(m)
}

func schemes() []func(*runtime.Scheme) error {
	return []func(*runtime.Scheme) error{v1alpha1.AddToScheme}
}
