package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetCapabilities says that there is nothing but to publish a volume.
func (d *driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodeGetInfo names the node.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

// NodePublishVolume mounts the folder of a volume where a pod has it.
func (d *driver) NodePublishVolume(
	_ context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	if r.VolumeId == "" || r.TargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "volume or path is missing")
	}
	if err := suits([]*csi.VolumeCapability{r.VolumeCapability}); err != nil {
		return nil, err
	}
	if _, err := d.store.find(volumes, r.VolumeId); err != nil {
		return nil, failed(err)
	}
	source := d.store.path(volumes, r.VolumeId)
	if same, err := isSame(source, r.TargetPath); same || err != nil {
		return &csi.NodePublishVolumeResponse{}, failed(err)
	}
	if err := os.MkdirAll(r.TargetPath, 0o750); err != nil {
		return nil, failed(err)
	}
	if err := mount(source, r.TargetPath, r.Readonly); err != nil {
		return nil, failed(errors.Join(err, os.Remove(r.TargetPath)))
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// mount binds a folder to a path. The kernel makes a mount read-only only after it is there.
func mount(source, target string, readOnly bool) error {
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	if !readOnly {
		return nil
	}
	if err := syscall.Mount("", target, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("make %s read-only: %w", target, err), syscall.Unmount(target, 0))
	}
	return nil
}

// NodeUnpublishVolume takes the folder away from a pod.
func (d *driver) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if r.VolumeId == "" || r.TargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "volume or path is missing")
	}
	err := syscall.Unmount(r.TargetPath, 0)
	if err == nil || errors.Is(err, syscall.EINVAL) { // a folder at which nothing is mounted
		err = os.Remove(r.TargetPath)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return &csi.NodeUnpublishVolumeResponse{}, failed(err)
}

// isSame reports whether both are one folder; one of them may not exist.
func isSame(a, b string) (bool, error) {
	var infos [2]os.FileInfo
	for i, path := range []string{a, b} {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		infos[i] = info
	}
	return os.SameFile(infos[0], infos[1]), nil
}
