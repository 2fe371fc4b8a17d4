package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"unicode/utf16"
)

// A key reaches the manager through secret managers, shells, editors and templates. Each of these forms can be read in
// one way only.
func TestPrivateKeyInEveryReadableForm(t *testing.T) {
	lines := func(key string) []string { return strings.Split(strings.TrimSpace(key), "\n") }
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("any")}))
	forms := map[string]func(key string) string{
		"as it is":                   func(key string) string { return key },
		"without the last line end":  strings.TrimSpace,
		"lines end as on Windows":    func(key string) string { return strings.ReplaceAll(key, "\n", "\r\n") },
		"lines end by CR alone":      func(key string) string { return strings.ReplaceAll(key, "\n", "\r") },
		"backslash and n":            func(key string) string { return strings.Join(lines(key), `\n`) },
		"backslash, r, backslash, n": func(key string) string { return strings.Join(lines(key), `\r\n`) + `\r\n` },
		"in quotes":                  func(key string) string { return `"` + strings.Join(lines(key), `\n`) + `"` },
		"indented":                   func(key string) string { return "    " + strings.Join(lines(key), "\n    ") },
		"indented by tabs":           func(key string) string { return "\t" + strings.Join(lines(key), "\n\t") },
		"blank lines":                func(key string) string { return strings.Join(lines(key), "\n\n") },
		"one line":                   func(key string) string { return strings.Join(lines(key), " ") },
		"no line ends":               func(key string) string { return strings.Join(lines(key), "") },
		"byte order mark":            func(key string) string { return "\ufeff" + key },
		"UTF-16": func(key string) string {
			var text strings.Builder
			for _, unit := range utf16.Encode([]rune("\ufeff" + key)) {
				text.Write([]byte{byte(unit), byte(unit >> 8)})
			}
			return text.String()
		},
		"base64":             func(key string) string { return base64.StdEncoding.EncodeToString([]byte(key)) },
		"base64, no padding": func(key string) string { return base64.RawStdEncoding.EncodeToString([]byte(key)) },
		"base64 for URLs":    func(key string) string { return base64.URLEncoding.EncodeToString([]byte(key)) },
		"base64 in lines": func(key string) string {
			encoded := base64.StdEncoding.EncodeToString([]byte(key))
			return encoded[:76] + "\n" + encoded[76:] + "\n"
		},
		"no BEGIN and END":      func(key string) string { return strings.Join(lines(key)[1:len(lines(key))-1], "\n") },
		"beside a certificate":  func(key string) string { return certificate + key },
		"with a text before it": func(key string) string { return "Bag Attributes\n" + key },
		"base64, backslash and n": func(key string) string {
			return base64.StdEncoding.EncodeToString([]byte(strings.Join(lines(key), `\n`)))
		},
		"base64 in single quotes ": func(key string) string {
			return "'" + base64.StdEncoding.EncodeToString([]byte(key)) + "'\n"
		},
	}
	for name, form := range forms {
		for kind, key := range map[string]string{"PKCS#1": pkcs1(), "PKCS#8": pkcs8(t)} {
			read, err := privateKeyOf(form(key))
			if err != nil || !read.Equal(appKey()) {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
		}
	}
}

func TestWhatIsWrongWithAPrivateKey(t *testing.T) {
	block := func(label string, body []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: body}))
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	elliptic8, err := x509.MarshalPKCS8PrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&appKey().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	key := pkcs1()
	encrypted := strings.Replace(key, "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n", 1)
	for name, test := range map[string]struct{ text, want string }{
		"empty":              {" \n", "empty"},
		"a token":            {"ghp_0123456789", "neither PEM nor an RSA key"},
		"a path":             {"/etc/keys/app.pem", "neither PEM nor an RSA key"},
		"cut off":            {key[:len(key)/2], "END line is missing"},
		"only the beginning": {"-----BEGIN RSA PRIVATE KEY-----", "END line is missing"},
		"a line is missing":  {strings.Replace(key, strings.Split(key, "\n")[3]+"\n", "", 1), "no whole RSA key"},
		"stars":              {strings.Replace(key, strings.Split(key, "\n")[3], "********", 1), "don't belong there"},
		"other hyphens":      {strings.ReplaceAll(key, "-----", "—--"), "five hyphens"},
		"public key":         {block("PUBLIC KEY", public), "no private key but a public key"},
		"certificate":        {block("CERTIFICATE", public), "no private key but a certificate"},
		"OpenSSH":            {block("OPENSSH PRIVATE KEY", public), `in the form "openssh private key"`},
		"elliptic curve":     {block("EC PRIVATE KEY", public), `in the form "ec private key"`},
		"elliptic, PKCS#8":   {block("PRIVATE KEY", elliptic8), "not an RSA key"},
		"encrypted, PKCS#8":  {block("ENCRYPTED PRIVATE KEY", public), "encrypted with a password"},
		"encrypted, PKCS#1":  {encrypted, "encrypted with a password"},
		"two keys":           {key + pkcs8(t), "2 private keys"},
		"other END":          {strings.Replace(key, "-----END RSA", "-----END DSA", 1), "BEGIN and END lines differ"},
		"huge":               {strings.Repeat("A", maxPrivateKey+1), "no key has more than 160"},
	} {
		_, err := privateKeyOf(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		err = Credentials{App: &AppCredentials{ID: "1", InstallationID: 2, PrivateKey: test.text}}.Validate()
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

func FuzzPrivateKey(f *testing.F) {
	for _, seed := range []string{
		"", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----", `-----BEGIN PRIVATE KEY-----\n`,
		"MIIE", "\x00-",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const secret = "Zm9vYmFyYmF6"
		for _, text := range []string{
			text, text + secret, "-----BEGIN RSA PRIVATE KEY-----\n" + secret + text + "-----END RSA PRIVATE KEY-----",
		} {
			if _, err := privateKeyOf(text); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%q is quoted: %v", text, err)
			}
		}
	})
}
