package tenant

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Sets whose servers send long answers slowly: each could hold half of the manager's memory for answers, of which 1 MiB
// for each of its runners.
const (
	dribblingSets    = 2
	dribblingRunners = 14
)

// clientAttacks are about what a set's connection to GitHub costs the manager: defects B12, B13 and B15 of the second
// reading.
func clientAttacks() []attack {
	attacks := []attack{{
		name:    "an authority of 800 KiB at an address that changes",
		objects: (*stage).restless,
		act:     (*stage).fidget,
		says:    works("restless"),
	}}
	for _, bits := range []int{20_000, 200_000} {
		name := fmt.Sprint("long-key-", bits)
		attacks = append(attacks, attack{
			name: fmt.Sprintf("a key of %d bits", bits),
			objects: func(s *stage) []client.Object {
				secret := &corev1.Secret{ObjectMeta: s.named(name), Data: map[string][]byte{
					"github_app_id": []byte("1"), "github_app_installation_id": []byte("1"),
					"github_app_private_key": longKey(bits),
				}}
				return []client.Object{secret, s.set(name, func(set *v1alpha1.AutoscalingRunnerSet) {
					set.Spec.GitHubConfigSecret = name
				})}
			},
			says: told(name, v1alpha1.ConditionCredentialsValid, []string{v1alpha1.ReasonCredentialsInvalid}, "bits"),
		})
	}
	for i := range dribblingSets {
		name := fmt.Sprint("dribbling-", i)
		attacks = append(attacks, attack{
			name: fmt.Sprintf("long answers that come slowly, %d", i),
			objects: one(name, func(s *stage, set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.GitHubConfigUrl, set.Spec.MinRunners = s.own[name].URL+"/org", new(dribblingRunners)
			}),
			says: works(name),
		})
	}
	return attacks
}

// restless is a set with an authority among many, and the ConfigMap with them.
func (s *stage) restless() []client.Object {
	s.Helper()
	const most = 800 << 10 // an object may have 1 MiB
	bundle := bytes.NewBufferString(s.own["hanging"].authority())
	for serial := int64(1); bundle.Len() < most; serial++ {
		bundle.WriteString(s.certificate(serial))
	}
	authorities := &corev1.ConfigMap{
		ObjectMeta: s.named("many-authorities"), Data: map[string]string{"ca.crt": bundle.String()},
	}
	return []client.Object{authorities, s.set("restless", func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Spec.GitHubServerTLS.CertificateFrom.ConfigMapKeyRef.Name = authorities.Name
	})}
}

// certificate is a certificate of nobody, as PEM.
func (s *stage) certificate(serial int64) string {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: fmt.Sprint("authority ", serial)},
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		s.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// fidget changes the address of the restless set, and the hosts that it reaches without a proxy, again and again.
func (s *stage) fidget() error {
	const times = 150
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: s.named("restless")}
	for i := range times {
		patch := fmt.Sprintf(`{"spec":{"githubConfigUrl":"%s/org-%d","proxy":{"noProxy":["host-%d.example"]}}}`,
			s.own["github"].URL, i%2, i)
		if err := s.patchAndAwait(set, patch); err != nil {
			return err
		}
	}
	return nil
}

// longKey is a private key of the App whose modulus has so many bits. Its factors are not prime, but the numbers fit
// together: finding primes of that length would take hours.
func longKey(bits int) []byte {
	const exponent = 65537
	one, e := big.NewInt(1), big.NewInt(exponent)
	p := new(big.Int).Sub(new(big.Int).Lsh(one, uint(bits/2)), one)
	q := new(big.Int).Sub(p, big.NewInt(2)) // two odd numbers beside each other have no common factor
	lessP, lessQ := new(big.Int).Sub(p, one), new(big.Int).Sub(q, one)
	d := new(big.Int).ModInverse(e, new(big.Int).Mul(lessP, lessQ))
	encoded, err := asn1.Marshal(struct {
		Version                      int
		N                            *big.Int
		E                            int
		D, P, Q, DP, DQ, Coefficient *big.Int
	}{
		0, new(big.Int).Mul(p, q), exponent, d, p, q, new(big.Int).Mod(d, lessP), new(big.Int).Mod(d, lessQ),
		new(big.Int).ModInverse(q, p),
	})
	if err != nil {
		panic(err) // numbers can be encoded
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: encoded})
}
