package rig

import (
	"cmp"
	"strings"
	"sync"
)

// imageRepository is the name of the image with the product's programs. Nobody pulls it.
const imageRepository = "rig.invalid/manager"

func (p Product) tag() string { return cmp.Or(p.Tag, "test") }

// products are those that have been installed, by the tag of their image. The node asks for them while a test installs
// another one.
type products struct {
	mutex sync.Mutex
	first Product
	byTag map[string]Product
}

func (p *products) add(product Product) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.byTag == nil {
		p.first, p.byTag = product, map[string]Product{}
	}
	p.byTag[product.tag()] = product
}

// productIn returns the product whose programs are in an image. A test may name images of its own; they have those of
// the product that it began with.
func (r *Rig) productIn(image string) Product {
	r.products.mutex.Lock()
	defer r.products.mutex.Unlock()
	if product, ok := r.products.byTag[image[strings.LastIndex(image, ":")+1:]]; ok {
		return product
	}
	return r.products.first
}

// Upgrade installs another product in place of the present one, as the documentation asks of users: with helm upgrade,
// first the controller, then each scale set. CRDs are the test's. It doesn't wait for the pods.
func (r *Rig) Upgrade(product Product) {
	r.t.Helper()
	product = product.orOurs(r.t, raceEnabled && !r.options.AsShipped)
	r.products.add(product)
	r.options.Product = product
	r.helmWith(r.controllerValues(), "upgrade", controllerRelease, product.Controller, "--namespace", r.SystemNamespace)
	for name := range r.sets {
		r.UpgradeSet(name, nil)
	}
}
