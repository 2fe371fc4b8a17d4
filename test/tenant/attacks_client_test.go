package tenant

import (
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// clientAttacks are about what a set's connection to GitHub costs the manager: defect B13 of the second
// reading.
func clientAttacks() []attack {
	var attacks []attack
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
	return attacks
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
