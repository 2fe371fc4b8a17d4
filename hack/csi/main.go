// Command folders is the CSI driver of tests on a real cluster: a volume is a folder of the node, a snapshot a copy of
// one. It is slow, fails, or gets no snapshot ready as the parameters of a class say (Faults), and registers itself with
// the kubelet. hack/csi.sh builds it, and the programs of Kubernetes' CSI stack that call it; they run beside the
// kubelet of hack/cluster. csi-test's suite runs against it: make e2e.
//
// It has a module of its own so that none of what it needs becomes a dependency of the product.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// driverName is the provisioner in a StorageClass and the driver in a VolumeSnapshotClass.
const driverName = "folders.harrier.test"

func main() {
	socket := flag.String("socket", "", "Unix socket on which the driver serves CSI")
	register := flag.String("registration", "", "Unix socket in the kubelet's directory plugins_registry")
	dir := flag.String("dir", "", "folder with all volumes and snapshots")
	node := flag.String("node", "", "name of the node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *socket, *register, *dir, *node); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, socket, register, dir, node string) error {
	kept, err := newStore(dir)
	if err != nil {
		return err
	}
	driver := &driver{store: kept, node: node}
	ended := make(chan error, 2)
	services := map[string]func(*grpc.Server){socket: driver.serve}
	if register != "" {
		services[register] = func(s *grpc.Server) {
			registration.RegisterRegistrationServer(s, &kubeletPlugin{endpoint: socket})
		}
	}
	for address, with := range services {
		if err := os.Remove(address); err != nil && !os.IsNotExist(err) {
			return err
		}
		listener, err := net.Listen("unix", address)
		if err != nil {
			return fmt.Errorf("serve CSI: %w", err)
		}
		server := grpc.NewServer(grpc.UnaryInterceptor(tell))
		with(server)
		go func() { ended <- server.Serve(listener) }()
		defer server.Stop()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// tell logs what changes something, and what fails.
func tell(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	if err != nil {
		log.Printf("%s: %v", info.FullMethod, err)
	}
	return response, err
}

// driver answers what CSI asks.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	store *store
	node  string
}

func (d *driver) serve(s *grpc.Server) {
	csi.RegisterIdentityServer(s, d)
	csi.RegisterControllerServer(s, d)
	csi.RegisterNodeServer(s, d)
}

// GetPluginInfo names the driver.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

// GetPluginCapabilities says that the driver makes volumes.
func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{
		Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
		}},
	}}}, nil
}

// Probe says that the driver is ready.
func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// kubeletPlugin tells the kubelet, which looks for sockets, where the driver is: the registrar's part.
type kubeletPlugin struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

// GetInfo names the driver and its socket.
func (p *kubeletPlugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driverName, Endpoint: p.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus logs what the kubelet thinks of the driver.
func (p *kubeletPlugin) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered with the kubelet: %t %s", status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}
