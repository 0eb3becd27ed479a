package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vsan"
	"github.com/vmware/govmomi/vsan/methods"
	vsantypes "github.com/vmware/govmomi/vsan/types"
)

// vsanConfig is a cluster's vSAN configuration: on, OSA or ESA.
type vsanConfig struct {
	types.ManagedObjectReference
	info vsantypes.VsanConfigInfoEx
}

func newVsan(l *lab) *simulator.Registry {
	on, esa := true, l.vsanKind == "esa"
	config := &vsanConfig{ManagedObjectReference: vsan.VsanVcClusterConfigSystemInstance}
	config.info.Enabled = &on
	config.info.VsanEsaEnabled = &esa
	config.info.DefaultConfig = &types.VsanClusterConfigInfoHostDefaultInfo{
		Uuid: "52e5a1c0-0000-4000-8000-000000000001",
	}
	registry := simulator.NewRegistry()
	registry.Namespace, registry.Path = vsan.Namespace, vsan.Path
	registry.Put(config)
	return registry
}

func (c *vsanConfig) VsanClusterGetConfig(*simulator.Context, *vsantypes.VsanClusterGetConfig) soap.HasFault {
	return &methods.VsanClusterGetConfigBody{Res: &vsantypes.VsanClusterGetConfigResponse{Returnval: c.info}}
}
