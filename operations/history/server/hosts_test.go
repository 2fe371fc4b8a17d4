package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/harrier-ci/harrier/operations/history/server"
)

// TestOnlyItsOwnNamesLeadToTheLedger: a page at rebind.example may have the browser of somebody who forwards a port ask
// rebind.example:8090, which by then is 127.0.0.1.
func TestOnlyItsOwnNamesLeadToTheLedger(t *testing.T) {
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) })
	handler := server.New(server.Handler(server.Options{Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		Hosts: []string{"History.example.com", "history.harrier-system.svc"}, Pages: pages})).Handler
	for host, want := range map[string]int{
		"localhost:8090": http.StatusOK, "LOCALHOST": http.StatusOK, "127.0.0.1:1": http.StatusOK,
		"[::1]:8090": http.StatusOK, "[::1]": http.StatusOK, "history.example.com": http.StatusOK, "history.harrier-system.svc:80": http.StatusOK,
		"rebind.example:8090": http.StatusMisdirectedRequest, "rebind.example": http.StatusMisdirectedRequest,
		"localhost.rebind.example:8090":             http.StatusMisdirectedRequest,
		"127.0.0.1.rebind.example":                  http.StatusMisdirectedRequest,
		"history.harrier-system.svc.rebind.example": http.StatusMisdirectedRequest,
		"10.0.0.7:8090":                             http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest,
		":8090":                         http.StatusMisdirectedRequest,
		"localhost@rebind.example:8090": http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/", "/api/v1/jobs/?", "/style.css"} {
			request := httptest.NewRequest(http.MethodGet, path, nil)
			request.Host = host
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code != want {
				t.Errorf("%s of host %q is %d, want %d: %s", path, host, answer.Code, want, answer.Body)
			}
		}
	}
}

func TestQuestionsHaveNoBody(t *testing.T) {
	handler := server.New(server.Probes(server.ProbeOptions{Registry: prometheus.NewRegistry(),
		Health: func() error { return nil }})).Handler
	for body, want := range map[string]int{"": http.StatusOK, "x": http.StatusRequestEntityTooLarge} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", strings.NewReader(body)))
		if answer.Code != want {
			t.Errorf("with the body %q it answers %d", body, answer.Code)
		}
	}
}
