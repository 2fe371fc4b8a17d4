// Package history is the program `manager history`: it watches the runners of a cluster, writes into the ledger what
// becomes of their jobs, and answers questions about them. Nothing else needs it: without it no runner behaves
// differently.
package history

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/logging"
	"github.com/harrier-ci/harrier/internal/wallclock"
	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/question"
	"github.com/harrier-ci/harrier/operations/history/server"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

// Environment variables.
const (
	// envDatabase has the URL of PostgreSQL: an argument would show it to everybody on the node.
	envDatabase  = "HISTORY_DATABASE_URL"
	envNamespace = "CONTROLLER_MANAGER_POD_NAMESPACE"
)

// Options are those of the command line and the environment.
type Options struct {
	// Address is where questions are answered, on loopback; MetricsAddress has probes and metrics.
	Address, MetricsAddress string
	// Open is how others than those on loopback are answered.
	Open Open
	// Hosts are names by which the page may be asked, besides those of loopback.
	Hosts     []string
	File      string
	Database  string
	Cluster   string
	Namespace string
	// Own is the namespace that the program runs in.
	Own       string
	NodeTypes bool
	Retention time.Duration
	Prices    prices.Rules
	Budgets   []prices.Budget
	LogJSON   bool
}

const usage = `Usage: manager history [flags]

Keeps what becomes of jobs, and answers questions about them over HTTP. The environment variable HISTORY_DATABASE_URL has the URL
of a PostgreSQL, if there is one.

`

// ParseOptions reads the command line and the environment.
func ParseOptions(arguments []string, environment func(string) string, output io.Writer) (Options, error) {
	o := Options{Database: environment(envDatabase), Own: environment(envNamespace)}
	flags := flag.NewFlagSet("history", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() {
		fmt.Fprint(output, usage)
		flags.PrintDefaults()
	}
	o.register(flags)
	readCharges := charges(flags)
	retention := flags.String("retention", "90d", "how long jobs are kept: days such as 90d, or a duration such as 48h")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: manager history has flags only", flags.Arg(0))
	}
	var err error
	if o.Retention, err = question.ParseDuration(*retention); err != nil || o.Retention < time.Hour {
		return o, fmt.Errorf("--retention=%s must be days such as 90d, or a duration of an hour or more", *retention)
	}
	if err := cmp.Or(checkLoopback(o.Address), o.Open.check()); err != nil {
		return o, err
	}
	o.Prices, o.Budgets, err = readCharges()
	return o, err
}

func (o *Options) register(flags *flag.FlagSet) {
	flags.StringVar(&o.Address, "address", "127.0.0.1:8090", "address of the page and the API. It must be one of "+
		"loopback: whoever reaches it may read all jobs")
	flags.StringVar(&o.MetricsAddress, "metrics-address", "127.0.0.1:8091", "address of probes and metrics")
	o.Open.register(flags)
	flags.Func("hosts", "`names` besides localhost by which browsers may ask, with commas between them",
		func(list string) error {
			o.Hosts = strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
			return nil
		})
	flags.StringVar(&o.File, "file", "/data/history.db", "file of the database; unused if "+envDatabase+" is set")
	flags.StringVar(&o.Cluster, "cluster", "",
		"name of the cluster in the ledger; empty: the UID of the namespace kube-system or, "+
			"without the right to read that, of the program's own")
	flags.StringVar(&o.Namespace, "watch-single-namespace", "", "watch runners in this namespace only; empty: in all")
	flags.BoolVar(&o.NodeTypes, "node-types", true, "ask for the types and labels of nodes on which jobs have run")
	flags.BoolVar(&o.LogJSON, "log-json", false, "write the log as JSON")
}

// Main runs the program until it is told to stop, and returns its exit code.
func Main(arguments []string, stderr io.Writer) int {
	options, err := ParseOptions(arguments, os.Getenv, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	log := logging.New(stderr, options.LogJSON, zapcore.InfoLevel)
	ctrl.SetLogger(log)
	config, err := kubeconfig.GetConfig()
	if err != nil {
		fmt.Fprintf(stderr, "there is no cluster to watch: %v; set KUBECONFIG, or run it in a cluster\n", err)
		return 1
	}
	if err := Run(ctrl.SetupSignalHandler(), config, options, log); err != nil {
		log.Error(err, "Exiting")
		return 1
	}
	return 0
}

// Run watches, writes and answers until the context ends.
func Run(ctx context.Context, config *rest.Config, options Options, log logr.Logger) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	config = apiaccess.WithoutProxy(config)
	reader, err := client.New(config, client.Options{Scheme: kinds.Scheme(), Mapper: kinds.Mapper()})
	if err != nil {
		return fmt.Errorf("set up the client of the API server: %w", err)
	}
	name := options.Cluster
	if name == "" {
		if name, err = clusterUID(ctx, reader, options.Own); err != nil {
			return err
		}
	}
	now := wallclock.System()
	store, err := openUntil(ctx, options, now, log)
	if err != nil {
		return err
	}
	defer store.Close()
	objects, err := watch.NewObjects(config, options.Namespace, name, nodeReader(reader, options.NodeTypes), now)
	if err != nil {
		return err
	}
	objects.Prices = options.Prices
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	recorder := &watch.Recorder{
		Ledger: store, Name: name, Namespace: options.Namespace, Cluster: objects, Clock: now, Log: log,
		Metrics: watch.NewMetrics(registry), Retention: options.Retention,
		MaxPending: watch.MaxPending,
		Prices:     options.Prices, Budgets: options.Budgets,
	}
	var started atomic.Bool
	seen := &access.View{Ledger: store, Cluster: name}
	questions := server.Handler(server.Options{
		Ledger: seen, Prices: options.Prices, Budgets: options.Budgets, Clock: now, Log: log, Registry: registry,
		Hosts: options.Hosts, Sets: objects.Sets,
		Pages: page.Handler(page.Options{
			Ledger: seen, Prices: options.Prices, Budgets: options.Budgets, Cluster: objects, Name: name, Clock: now, Log: log,
		}),
	})
	probes := server.Probes(server.ProbeOptions{Ledger: store, Log: log, Registry: registry, Started: started.Load,
		Health: recorder.Health})
	if err := serve(ctx, "metrics-address", options.MetricsAddress, probes, nil, stop, log); err != nil {
		return err
	}
	if options.Open.Mode != "" {
		proxy := &options.Open.Proxy
		if options.Open.Mode != openByProxy {
			proxy = nil
		}
		guarded := access.NewGuard(reader, name, options.Open.Audience, proxy, log).Around(questions)
		if err := serve(ctx, "open-address", options.Open.Address, guarded, options.Open.encryption(), stop, log); err != nil {
			return err
		}
	}
	if err := serve(ctx, "address", options.Address, access.Loopback(questions), nil, stop, log); err != nil {
		return err
	}
	err = objects.Start(ctx, recorder.Report)
	var gap *ledger.Gap
	if err == nil {
		gap, err = store.Begin(ctx, name, now.Now())
	}
	if ctx.Err() != nil {
		return ended(ctx) // told to end before it has begun
	}
	if err != nil {
		return err
	}
	if gap != nil {
		log.Info("Nobody has looked for a while; jobs that began and whose runners were gone within it are in no row",
			"from", gap.From, "to", gap.To, "reason", gap.Reason)
	}
	started.Store(true)
	recorder.Run(ctx)
	return ended(ctx)
}

// ended returns the error for which the program ends, nil if it was told to end.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func nodeReader(reader client.Reader, wanted bool) client.Reader {
	if !wanted {
		return nil
	}
	return reader
}

// openBackoff is the pause after the database could not be opened.
const openBackoff = 5 * time.Second

// openUntil opens the ledger, and tries again while PostgreSQL is away. What was written by a newer program, or can't
// be a database, fails.
func openUntil(ctx context.Context, options Options, now clock.Clock, log logr.Logger) (*ledger.Ledger, error) {
	if options.Database == "" {
		return ledger.Open(ctx, options.File)
	}
	if !strings.HasPrefix(options.Database, "postgres://") && !strings.HasPrefix(options.Database, "postgresql://") {
		return nil, fmt.Errorf("%s must have the form postgres://USER:PASSWORD@HOST:5432/NAME", envDatabase)
	}
	for {
		store, err := ledger.Open(ctx, options.Database)
		if err == nil || ledger.IsFinal(err) || ctx.Err() != nil {
			return store, err
		}
		log.Error(err, "The database can't be opened; it is tried again", "retryAfter", openBackoff.String())
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-now.After(openBackoff):
		}
	}
}

// clusterUID returns the UID by which the cluster is told from others that share the database.
func clusterUID(ctx context.Context, reader client.Reader, own string) (string, error) {
	var failures []error
	for _, name := range []string{metav1.NamespaceSystem, own} {
		if name == "" {
			continue
		}
		namespace := metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		err := reader.Get(ctx, client.ObjectKey{Name: name}, &namespace)
		if err == nil {
			return string(namespace.UID), nil
		}
		failures = append(failures, fmt.Errorf("get namespace %s: %w", name, err))
	}
	return "", fmt.Errorf("the cluster needs a name in the ledger: %w; allow it, or set --cluster",
		errors.Join(failures...))
}

// checkLoopback returns an error if an address is reached from elsewhere.
func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !net.ParseIP(host).IsLoopback() { // a name may lead elsewhere
		return fmt.Errorf("--address=%s must be an address of loopback, such as 127.0.0.1:8090: whoever reaches it may read "+
			"all jobs", address)
	}
	return nil
}

// serve listens on the address that a flag has, answers there until the context ends, with TLS unless encryption is nil,
// and stops the program if it can't.
func serve(ctx context.Context, flag, address string, handler http.Handler, encryption *tls.Config,
	stop context.CancelCauseFunc, log logr.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on --%s: %w", flag, err)
	}
	at := listener.Addr()
	if encryption != nil {
		listener = tls.NewListener(listener, encryption)
	}
	log.Info("Answering", flag, at.String())
	answering := server.New(handler)
	context.AfterFunc(ctx, func() { _ = answering.Close() })
	go func() {
		if err := answering.Serve(listener); ctx.Err() == nil {
			stop(fmt.Errorf("serve --%s: %w", flag, err))
		}
	}()
	return nil
}
