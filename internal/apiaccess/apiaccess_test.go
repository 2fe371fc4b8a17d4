package apiaccess_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/harrier-ci/harrier/internal/apiaccess"
)

func TestWithoutProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
	request := httptest.NewRequest(http.MethodGet, "https://10.96.0.1:443/version", nil)
	named := &url.URL{Scheme: "http", Host: "kubeconfig.example.com:3128"}
	for name, test := range map[string]struct {
		config *rest.Config
		want   *url.URL
	}{
		"in a pod":                       {&rest.Config{}, nil},
		"by a kubeconfig with proxy-url": {&rest.Config{Proxy: http.ProxyURL(named)}, named},
	} {
		before := test.config.Proxy == nil
		got, err := apiaccess.WithoutProxy(test.config).Proxy(request)
		if err != nil || got != test.want {
			t.Errorf("%s: proxy %v, %v; want %v", name, got, err, test.want)
		}
		if before != (test.config.Proxy == nil) {
			t.Errorf("%s: the configuration given was changed", name)
		}
	}
}
