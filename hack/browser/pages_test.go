package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// violations are axe-core's findings, each with the elements that it is about.
const violations = `axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.map(v =>
	v.id + ": " + v.help + "\n" + v.nodes.map(n => n.html.slice(0, 200) + " " + n.failureSummary).join("\n")))`

// TestEveryPageSuitsPeopleAndScreens: on a phone and on a large screen, in light and dark, no page breaks a rule of
// axe-core, is wider than the screen, loads more than 200 KB or from anybody else, or has its browser complain.
func TestEveryPageSuitsPeopleAndScreens(t *testing.T) {
	const most = 200_000
	for _, width := range []int64{390, 1440} {
		for _, scheme := range []string{"light", "dark"} {
			tab := open(t, width, scheme)
			for number, page := range pages {
				name := fmt.Sprintf("/%s, %d pixels, %s", page, width, scheme)
				tab.mu.Lock()
				tab.loaded = 0
				tab.mu.Unlock()
				tab.show(t, page)
				if wrong := tab.errors(); len(wrong) > 0 && page != "nowhere" { // a page that is not there is an error
					t.Errorf("%s: %q", name, wrong)
				}
				if background := evaluate[string](t, tab,
					`getComputedStyle(document.body).backgroundColor`); (scheme == "dark") !=
					(background == "rgb(13, 17, 23)") {
					t.Errorf("%s: the background is %s", name, background)
				}
				if wide := evaluate[int64](t, tab, `document.documentElement.scrollWidth`); wide > width {
					t.Errorf("%s: it is %d pixels wide", name, wide)
				}
				if *looks != "" {
					picture, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
					if err != nil {
						t.Fatal(err)
					}
					file := fmt.Sprintf("%d-%d-%s.png", number, width, scheme)
					if err := os.WriteFile(filepath.Join(*looks, file), picture, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				evaluate[int](t, tab, axe+"; 1")
				for _, violation := range evaluate[[]string](t, tab, violations) {
					t.Errorf("%s: %s", name, violation)
				}
				tab.mu.Lock()
				if tab.loaded > most {
					t.Errorf("%s loads %.0f bytes", name, tab.loaded)
				}
				for host := range tab.hosts {
					if host != site {
						t.Errorf("%s asks %s", name, host)
					}
				}
				tab.mu.Unlock()
			}
		}
	}
}

func TestPagesFollowWithoutReload(t *testing.T) {
	tab := open(t, 1440, "light")
	tab.show(t, "jobs")
	tab.until(t, `document.querySelector("#live [role=status]").textContent === "Live"`)
	evaluate[int](t, tab, `window.sameDocument = 1`)
	// In one step: what is on the page may be replaced between two of them.
	focused := evaluate[string](t, tab, `(() => {
		const link = document.querySelector("#content tbody tr:nth-child(2) a"); link.focus(); return link.getAttribute("href") })()`)
	const name = `<b>brand new</b>`
	if _, err := fmt.Fprintln(jobs, name); err != nil {
		t.Fatal(err)
	}
	tab.until(t, `document.querySelector("#content").textContent.includes("<b>brand new</b>")`)
	if evaluate[int](t, tab, `window.sameDocument || 0`) != 1 {
		t.Error("the page was loaded again")
	}
	if now := evaluate[string](t, tab, `document.activeElement.getAttribute("href") || ""`); now != focused {
		t.Errorf("the focus was at %s and is at %q", focused, now)
	}
	tab.do(t, chromedp.Click(chromedp.CSS(`#live button`)))
	tab.until(t, `document.querySelector("#live [role=status]").textContent === "Paused"`)
	if wrong := tab.errors(); len(wrong) > 0 {
		t.Errorf("the browser says %q", wrong)
	}
}

func TestEverythingIsReachedByKeyboard(t *testing.T) {
	tab := open(t, 1440, "light")
	tab.show(t, "")
	tab.do(t, chromedp.KeyEvent(kb.Tab))
	const active = `document.activeElement.textContent.trim()`
	if first := evaluate[string](t, tab, active); first != "Skip to the content" {
		t.Errorf("the first that has the focus is %q", first)
	}
	if left := evaluate[float64](t, tab, `document.activeElement.getBoundingClientRect().left`); left < 0 {
		t.Error("it can't be seen")
	}
	tab.do(t, chromedp.KeyEvent(kb.Enter))
	if at := evaluate[string](t, tab, `document.activeElement.id`); at != "main" {
		t.Errorf("it leads to %q", at)
	}
	const outlined = `(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 })()`
	for range 40 {
		tab.do(t, chromedp.KeyEvent(kb.Tab))
		if !evaluate[bool](t, tab, outlined) {
			t.Errorf("nobody sees that %q has the focus",
				evaluate[string](t, tab, `document.activeElement.outerHTML.slice(0, 200)`))
		}
		if evaluate[bool](t, tab, `document.activeElement.matches("#content tbody th a")`) {
			break
		}
	}
	tab.do(t, chromedp.KeyEvent(kb.Enter))
	tab.until(t, `location.pathname === "/set" && document.readyState === "complete"`)
}

func TestPagesAreWholeWithoutScripts(t *testing.T) {
	tab := open(t, 1440, "light")
	tab.do(t, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}),
		chromedp.Navigate(site+lost))
	text, err := chromedp.Run(tab, func(ctx context.Context, target *chromedp.Target) (string, error) {
		document, err := cdp.Call(ctx, target, dom.GetDocument, dom.GetDocumentParams{})
		if err != nil {
			return "", err
		}
		html, err := cdp.Call(ctx, target, dom.GetOuterHTML,
			dom.GetOuterHTMLParams{BackendNodeID: document.Root.BackendNodeID})
		return html.OuterHTML, err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"deploy", "NodeLost", "linux-lost1", "actions/runs/19123456789"} {
		if !strings.Contains(text, want) {
			t.Errorf("without scripts the page lacks %q", want)
		}
	}
}

// TestPictures takes the pictures of the documentation, if it is told where to.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		return
	}
	const most = 150_000
	tab := open(t, 1280, "light")
	tab.do(t, command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: 1280, Height: 720, DeviceScaleFactor: 1,
	}))
	for name, page := range map[string]string{
		"history-sets": "", "history-set": gpu, "history-job": lost, "history-usage": "usage?by=workflow",
		"history-trends": "trends",
	} {
		tab.show(t, page)
		tab.until(t, `document.querySelector("#live [role=status]").textContent === "Live"`)
		// The day's hostile names are for other tests.
		evaluate[int](t, tab, `document.querySelectorAll("tr").forEach(r => r.textContent.includes("<script>") && r.remove()), 1`)
		picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if len(picture) > most {
			t.Errorf("%s takes %d bytes", name, len(picture))
		}
		if err := os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
