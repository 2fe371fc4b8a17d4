package failure

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// installationToken has the form of April 2026, with 520 characters.
var installationToken = "ghs_1234567_eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9." +
	base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"github","aud":"api","iat":1775000000,"exp":1775003600,`+
		`"installation":98765432}`)) + "." + strings.Repeat("Zq3-xV_7", 43)

// opaque has no form that is known.
const opaque = "s3cr3t~value.of+an/Enterprise_Server=="

// Of the published forms nothing is shown, whosever the token is.
func TestPublishedFormsOfTokensAreHidden(t *testing.T) {
	const letters = "0123456789abcdefghijABCDEFGHIJ012345"
	jwt := strings.SplitN(installationToken, "_", 3)[2]
	for name, token := range map[string]string{
		"classic":          "ghp_" + letters,
		"fine-grained":     "github_pat_11ABCDEFG0123456789012_" + letters + letters[:23],
		"OAuth":            "gho_" + letters,
		"user":             "ghu_" + letters,
		"refresh":          "ghr_" + letters + letters,
		"installation":     "ghs_" + letters,
		"with a JWT":       installationToken,
		"with a small JWT": "ghs_1_" + jwt,
		"JWT":              jwt,
		"payload":          strings.SplitN(jwt, ".", 2)[1],
		"old Server":       "v1." + strings.Repeat("0123456789abcdef", 3)[:40],
		"registration":     "LLBF3JGZDX3P5PMEXLND6TS6FCWO6",
		"JIT config":       base64.StdEncoding.EncodeToString([]byte(`{".runner":"e30=",".credentials":"e30="}`)),
	} {
		for place, text := range map[string]string{
			"in a sentence":   "you sent " + token + " to us",
			"at the end":      "not valid: " + token + ".",
			"in a header":     "Authorization: Bearer " + token + "; Accept: */*",
			"in a query":      "https://proxy.example.com/?token=" + token + "&x=1",
			"in JSON in JSON": `{\"token\":\"` + token + `\"}`,
			"behind a line":   `bad\n` + token,
		} {
			got := redact(text)
			if shown := partOf(got, token); shown != "" || !strings.Contains(got, redacted) {
				t.Errorf("%s %s: %q is shown in %q", name, place, shown, got)
			}
		}
	}
	asGits := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + installationToken))
	for name, form := range map[string]string{
		"percent":                    url.QueryEscape(installationToken),
		"all percent":                escapedAs("%%%02X", installationToken),
		"JSON":                       escapedAs(`\u%04x`, installationToken),
		"as Git's password":          "https://x-access-token:" + installationToken + "@github.example.com/acme/app.git",
		"as Git's password, percent": "https%3A%2F%2Fx-access-token%3A" + url.QueryEscape(installationToken) + "%40github.example.com",
		"as Git's header":            "Authorization: Basic " + asGits,
		"base64 in JSON":             `{"auth":"` + asGits + `"}`,
		"base64, percent":            url.QueryEscape(asGits),
	} {
		got := redact("you sent " + form)
		plain := unescaped(got).text
		for _, secret := range append(encodingsOf(installationToken), installationToken) {
			if shown := partOf(folded(plain), folded(secret)); shown != "" || !strings.Contains(got, redacted) {
				t.Errorf("an installation's %s: %q is shown in %q", name, shown, got)
			}
		}
	}
	for _, text := range []string{"Bearer s3cr3tOfSomebodyElse", "basic dXNlcjpwYXNz", "http://user:hunter22@proxy:3128"} {
		if got := redact(text); !strings.Contains(got, redacted) {
			t.Errorf("%q is shown", got)
		}
	}
}

// The call's own credential is found whatever its form, and whatever became of it on its way back.
func TestTheCallsOwnCredentialIsHidden(t *testing.T) {
	for _, token := range []string{installationToken, opaque, "AABF3JGZDX3P5PMEXLND6TS6FCWO6"} {
		half := len(token) / 2
		hidden := map[string]string{
			"whole":             token,
			"the beginning":     token[:half],
			"the end":           token[half:],
			"inside":            token[5 : len(token)-5],
			"capitals":          strings.ToUpper(token),
			"percent":           url.QueryEscape(token),
			"all percent":       escapedAs("%%%02X", token),
			"percent twice":     url.QueryEscape(escapedAs("%%%02x", token)),
			"JSON":              escapedAs(`\u%04x`, token),
			"JSON's slash":      strings.ReplaceAll(token, "/", `\/`),
			"a string":          escapedAs(`\x%02x`, token),
			"HTML":              escapedAs("&#%d;", token),
			"HTML, hexadecimal": escapedAs("&#x%x;", token),
			"hexadecimal":       hex.EncodeToString([]byte(token)),
			"in capitals":       strings.ToUpper(hex.EncodeToString([]byte(token))),
			"another dot":       strings.NewReplacer(".", "%2E", "_", "&#95;").Replace(token),
			"as Git's header":   base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token)),
		}
		for before := range 4 {
			text := "user:xyz"[:before] + token + ":x"
			hidden[fmt.Sprintf("base64 behind %d", before)] = base64.StdEncoding.EncodeToString([]byte(text))
			hidden[fmt.Sprintf("base64 of addresses behind %d", before)] = base64.RawURLEncoding.EncodeToString([]byte(text))
		}
		for name, form := range hidden {
			got := redact("Sent: "+form+", and that is refused.", token)
			plain := unescaped(got).text
			for _, secret := range append(encodingsOf(token), token) {
				if shown := partOf(folded(plain), folded(secret)); shown != "" {
					t.Errorf("%s: %q is shown in %q", name, shown, got)
				}
			}
			if !strings.HasPrefix(got, "Sent: ") || !strings.HasSuffix(got, ", and that is refused.") {
				t.Errorf("%s: more than the credential is hidden: %q", name, got)
			}
		}
	}
}

func escapedAs(format, text string) string {
	var escaped strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&escaped, format, text[i])
	}
	return escaped.String()
}

// partOf returns a part of a secret that is in a text and gives it away.
func partOf(text, secret string) string {
	size := min(shortestPart, len(secret))
	for i := range len(secret) - size + 1 {
		if part := secret[i : i+size]; strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// A proxy sees name and password of its own header.
func TestTheProxysPasswordIsHidden(t *testing.T) {
	proxy := &url.URL{Scheme: "http", Host: "proxy:3128", User: url.UserPassword("builder", "hunter/22")}
	secrets := Secrets("Bearer "+opaque, proxy)
	for _, text := range []string{
		"hunter/22", "hunter%2F22", base64.StdEncoding.EncodeToString([]byte("builder:hunter/22")), opaque,
	} {
		if got := redact("refused: "+text, secrets...); got != "refused: "+redacted {
			t.Errorf("%q", got)
		}
	}
	if secrets := Secrets("", &url.URL{Scheme: "http", Host: "proxy", User: url.User("builder")}); len(secrets) > 0 {
		t.Errorf("secrets %q without a password", secrets)
	}
}

// What GitHub says of a failure is shown as it is.
func TestWhatIsNoSecretIsShown(t *testing.T) {
	for _, text := range []string{
		"Bad credentials", "Bearer authentication is required", "Basic authorization failed", "",
		"Resource not accessible by integration", `100% of "all" \u00e4 &amp; others`, "no token_for_this_purpose",
		"No commit found for SHA: 6dcb09b5b57875f334f61aebed695e2e4193db5e",
		"activity 0c5a1f3e-8a1b-4c2d-9e3f-5a6b7c8d9e0f, request C4C2:2A5D:6A9C3B1:6DCB09B:68A1B2C3",
		"GitHub.DistributedTask.WebApi.TaskAgentNotFoundException, GitHub.DistributedTask.WebApi",
		"https://api.github.com/orgs/my-organization/actions/runners/registration-token",
		"Although you appear to have the correct authorization credentials, the `my-organization` organization has an " +
			"IP allow list enabled, and your IP address is not permitted to access this resource.",
	} {
		if got := redact(text, "Secr3t-of-the-call", installationToken, ""); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestIdentifiersAndAddressesShowNoSecret(t *testing.T) {
	header := http.Header{}
	for value, want := range map[string]string{"0c5a1f3e-8a1b-4c2d-9e3f-5a6b7c8d9e0f": "0c5a1f3e-8a1b-4c2d-9e3f-5a6b7c8d9e0f",
		"ghp_0123456789abcdefghij": "", "Secr3t.of-the-call": "", "x y": ""} {
		header.Set(HeaderActivityID, value)
		if got := Identifier(header, HeaderActivityID, "Secr3t.of-the-call"); got != want {
			t.Errorf("%q became %q", value, got)
		}
	}
	address := &url.URL{Scheme: "https", Host: "github.example.com", Path: "/x/" + opaque, RawQuery: "q=" + opaque}
	if got := Bare(address, opaque); strings.Contains(got, "s3cr3t") || !strings.HasPrefix(got, "https://github.") {
		t.Errorf("%q", got)
	}
	refused := NewRefusedAddressError(errors.New("no "+opaque), opaque)
	if got := refused.Error(); got != "no "+redacted {
		t.Errorf("%q", got)
	}
	several := Redacted(errors.Join(errors.New("first"), errors.New("then "+opaque)), opaque)
	if got := several.Error(); got != "first\nthen "+redacted {
		t.Errorf("%q", got)
	}
}

// A text is not searched without end, and a credential that is cut where the search ends is hidden, too.
func TestLongTextsAreCutBeforeTheyAreSearched(t *testing.T) {
	for end := range 20 {
		text := strings.Repeat("x", maxForeign-end) + opaque
		if got := redact(text, opaque); strings.Contains(got, opaque[:shortestPart]) || len(got) > maxForeign+len("…") {
			t.Errorf("%d bytes, with the end %q", len(got), got[max(0, len(got)-40):])
		}
	}
}

func FuzzRedact(f *testing.F) {
	for _, seed := range []string{"", "%", `\u00`, "&#x;", "&#99999;", "%25%32%35", `\`, "ghs_", "ey", "://:@", "\xff%ff"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "Q7x9Zt2Lk4Vb8Nm1"
		got := redact(before+secret+after, secret)
		if strings.Contains(got, secret) {
			t.Errorf("%q", got)
		}
		if len(before) > maxForeign || len(after) > maxForeign {
			return
		}
		if again := redact(got, secret); strings.Contains(again, secret) {
			t.Errorf("%q, then %q", got, again)
		}
	})
}
