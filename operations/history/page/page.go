// Package page shows people what the ledger knows, in a browser: scale sets and what limits them, jobs and what became
// of them, usage and its cost. A page is made here and complete as it comes; a script has it made again while somebody
// looks, and can be left out. The time and the filter are in the address. Texts of others are escaped, cut and
// printable; no page has more rows than fit 200 KB, and none asks the ledger for more.
//
//	address ─▶ question ─▶ ledger ─▶ rows and pictures (pure) ─▶ template
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/picture"
	"github.com/harrier-ci/harrier/operations/history/page/words"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/question"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

const (
	// At most maxRequests pages are made at a time.
	maxRequests = 8
	// slotTimeout bounds the wait for others' pages to be made, readTimeout making a page.
	slotTimeout = 5 * time.Second
	readTimeout = 20 * time.Second
)

// Cluster is the cluster that the program watches itself.
type Cluster interface {
	// Now returns what a scale set waits for at this moment.
	Now(namespace, set string) watch.Now
	// Waiting returns the jobs that wait for a runner, by scale set, the oldest first, as far as their names are known.
	Waiting() map[types.NamespacedName][]v1alpha1.WaitingJob
	// Sets returns how scale sets look at this moment.
	Sets() []ledger.Sample
	// GitHub returns the address of the GitHub that a scale set is of, empty if there is no such set.
	GitHub(namespace, set string) string
}

// Options have what pages are made of.
type Options struct {
	Ledger access.Reader
	Prices ledger.Prices
	// Budgets are those of the ledger's own cluster.
	Budgets []prices.Budget
	// Cluster may be nil; Name is its name in the ledger.
	Cluster Cluster
	Name    string
	Clock   clock.WithTicker
	Log     logr.Logger
}

//go:embed templates static
var files embed.FS

// pages has what all pages share.
type pages struct {
	Options
	templates map[string]*template.Template
	version   string
	// slots are the pages that are being made, live those that are kept up to date.
	slots chan struct{}
	live  places
}

// kind is one of the pages.
type kind struct {
	template string
	// from is the time that it shows if the address has none; empty: all times.
	from string
	// fields are the filters that its form has.
	fields []string
	// takes are the parts of an address that apply to it.
	takes [][]string
	// every is the interval at which it is made again while somebody looks.
	every time.Duration
	read  func(context.Context, *pages, *request) (answer, error)
}

var kinds = map[string]kind{
	"/{$}": {"overview", "24h", []string{"namespace", "set"}, [][]string{question.Time, question.Place}, 5 * time.Second,
		overview},
	"/set": {"set", "24h", nil, [][]string{question.Time, question.Place}, 5 * time.Second, oneSet},
	"/jobs": {"jobs", "24h", []string{"text", "namespace", "set", "repository", "workflow", "result", "lostCause"},
		[][]string{question.Time, question.Place, question.OfKinds, question.OfJobs, question.OfRuns, question.Pages}, 5 * time.Second, listJobs},
	"/run": {"run", "", nil, [][]string{question.Run, question.Place}, 5 * time.Second, oneRun},
	"/job": {"job", "", nil, [][]string{{"runnerUID"}, question.Place}, 5 * time.Second, oneJob},
	"/trends": {"trends", "30d", []string{"namespace", "set", "repository", "workflow", "name", "branch", "event"},
		[][]string{question.Time, question.Place, question.OfKinds, question.OfRuns, question.By, question.Every}, time.Minute, trends},
	"/usage": {"usage", "7d", []string{"namespace", "set", "repository", "workflow"},
		[][]string{question.Time, question.Place, question.OfKinds, question.By}, 30 * time.Second, usage},
}

// Handler returns the pages, and the files that they need.
func Handler(options Options) http.Handler {
	p := &pages{Options: options, templates: map[string]*template.Template{}, version: version(),
		slots: make(chan struct{}, maxRequests), live: places{clock: options.Clock}}
	layout := template.Must(template.New("layout").Funcs(functions).ParseFS(files, "templates/layout.html",
		"templates/budgets.html"))
	mux := http.NewServeMux()
	for path, kind := range kinds {
		own := template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+kind.template+".html"))
		p.templates[kind.template] = own
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, &kind) })
	}
	p.templates["error"] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/error.html"))
	for name, contentType := range map[string]string{
		"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		content, err := files.ReadFile("static/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable") // its address has the version
			_, _ = w.Write(content)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			p.fail(w, http.StatusMethodNotAllowed, "pages are only read")
			return
		}
		p.fail(w, http.StatusNotFound, "there is no such page")
	})
	return secured(mux)
}

// version returns a text that differs between versions of the files.
func version() string {
	hash := sha256.New()
	for _, name := range []string{"style.css", "live.js", "icon.svg"} {
		content, err := files.ReadFile("static/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
}

// secured has browsers run and load nothing but what is served here, show pages in no other site's frame, and tell no
// other site which page led to it.
func secured(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; " +
				"img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control": "no-store",
		} {
			w.Header().Set(name, value)
		}
		pages.ServeHTTP(w, r)
	})
}

// request has what an address asks for.
type request struct {
	question.Question
	// query is the address's own, without what is empty.
	query url.Values
	now   time.Time
	// window is the time that pictures show: whole minutes, so that they don't change all the time.
	window picture.Window
}

// request reads an address. It returns false if the address has empty parts, as forms leave them.
func (k *kind) request(r *http.Request, now time.Time) (*request, bool, error) {
	asked, clean := url.Values{}, true
	for name, values := range r.URL.Query() {
		if len(values) == 1 && values[0] == "" {
			clean = false
			continue
		}
		asked[name] = values
	}
	if k.from != "" && asked.Get("from") == "" {
		asked.Set("from", k.from)
	}
	parsed, err := question.Parse(asked, now, k.takes...)
	if err != nil {
		return &request{query: asked}, clean, err
	}
	shown := picture.Window{From: parsed.Filter.From, To: now.Truncate(time.Minute).Add(time.Minute)}
	if to := parsed.Filter.To; to.IsZero() {
		shown.From = shown.From.Truncate(time.Minute)
	} else if to.Before(shown.To) {
		shown.To = to
	}
	if !shown.From.IsZero() && !shown.From.Before(shown.To) {
		err = &ledger.FilterError{Field: "from", Value: asked.Get("from"), Want: "before to, and before now"}
	}
	return &request{parsed, asked, now, shown}, clean, err
}

// serve answers with a page or, if a script asks, with the content of the page whenever it has changed.
func (p *pages) serve(w http.ResponseWriter, r *http.Request, k *kind) {
	if r.Header.Get("Accept") == "text/event-stream" {
		p.follow(w, r, k)
		return
	}
	request, clean, err := k.request(r, p.Clock.Now())
	if err == nil && !clean {
		w.Header().Set("Location", link.To(k.template, request.query)) // http.Redirect would make it absolute
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	var page []byte
	if err == nil {
		page, err = p.make(r.Context(), k, request, "layout")
	}
	if err != nil {
		p.refuse(w, r, k, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page) // whoever has asked may be gone
}

// refuse answers with the error that prevents a page.
func (p *pages) refuse(w http.ResponseWriter, r *http.Request, k *kind, err error) {
	var wrong *ledger.FilterError
	var refused *access.RefusedError
	switch {
	case errors.As(err, &refused):
		p.fail(w, refused.Status, refused.Message)
	case errors.As(err, &wrong):
		shown := ledger.FilterError{Field: words.Foreign(wrong.Field), Value: words.Foreign(wrong.Value), Want: wrong.Want}
		p.fail(w, http.StatusBadRequest, shown.Error())
	case errors.Is(err, ledger.ErrNoJob):
		p.fail(w, http.StatusNotFound, err.Error())
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "1")
		p.fail(w, http.StatusServiceUnavailable, err.Error())
	case r.Context().Err() != nil: // nobody listens any more
	case errors.Is(err, context.DeadlineExceeded):
		p.fail(w, http.StatusServiceUnavailable, "the database took longer than "+readTimeout.String()+
			"; ask for less time, or choose a set or repository")
	default:
		p.Log.Error(err, "A page can't be made", "page", k.template)
		p.fail(w, http.StatusServiceUnavailable, "the database does not answer; the log of the ledger says why")
	}
}

var errBusy = errors.New("too many pages are being made at this moment; ask again in a second")

// make returns a page, or the part of it that one of its templates makes.
func (p *pages) make(ctx context.Context, k *kind, r *request, part string) ([]byte, error) {
	waits, stop := context.WithTimeout(ctx, slotTimeout)
	defer stop()
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-waits.Done():
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	a, err := k.read(ctx, p, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err() // the database has its own words for it
		}
		return nil, err
	}
	var page bytes.Buffer
	err = p.templates[k.template].ExecuteTemplate(&page, part, p.view(k, r, a))
	return page.Bytes(), err
}

// fail shows an error as a page.
func (p *pages) fail(w http.ResponseWriter, status int, message string) {
	var page bytes.Buffer
	v := view{answer: answer{Title: http.StatusText(status), Main: message}, Version: p.version}
	if err := p.templates["error"].ExecuteTemplate(&page, "layout", v); err != nil {
		p.Log.Error(err, "A page can't be made", "page", "error")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}
