package main

import (
	"strconv"
	"strings"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/pbm"
	"github.com/vmware/govmomi/pbm/methods"
	pbmsim "github.com/vmware/govmomi/pbm/simulator"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// policies remembers which storage policy was applied to which VM home and disk.
//
// As in a real vCenter, the policy of a clone's order goes to its home alone.
type policies struct {
	*pbmsim.ProfileManager
	registry *simulator.Registry
	lab      *lab

	mu      sync.Mutex
	homes   map[string]string
	disks   map[string]map[int32]string
	waiting map[string]*additions
}

type additions struct {
	there    map[int32]bool
	profiles []string
}

func newPolicies(l *lab) *policies {
	built := pbmsim.New()
	var manager *pbmsim.ProfileManager
	instance := built.Get(pbm.ServiceInstance).(*pbmsim.ServiceInstance)
	manager = built.Get(instance.Content.ProfileManager).(*pbmsim.ProfileManager)
	p := &policies{
		ProfileManager: manager, lab: l, homes: map[string]string{},
		disks: map[string]map[int32]string{}, waiting: map[string]*additions{},
	}
	for _, name := range []string{"raid1-ftt1", "raid5-ftt1", "raid6-ftt2", "encrypt"} {
		manager.PbmCreate(l.ctx, &pbmtypes.PbmCreate{CreateSpec: pbmtypes.PbmCapabilityProfileCreateSpec{
			Name:         name,
			Category:     "REQUIREMENT",
			ResourceType: pbmtypes.PbmProfileResourceType{ResourceType: "STORAGE"},
			Constraints:  &pbmtypes.PbmCapabilitySubProfileConstraints{},
		}})
	}
	p.registry = simulator.NewRegistry()
	p.registry.Namespace, p.registry.Path = pbm.Namespace, pbm.Path
	p.registry.Put(p)
	return p
}

// note reads the policies out of a clone's or a reconfigure's order.
func (p *policies) note(method *simulator.Method) {
	if order, ok := method.Body.(*types.ReconfigVM_Task); ok {
		p.reconfigured(method.This.Value, &order.Spec)
	}
}

func profileOf(specs []types.BaseVirtualMachineProfileSpec) string {
	for _, spec := range specs {
		if defined, ok := spec.(*types.VirtualMachineDefinedProfileSpec); ok {
			return defined.ProfileId
		}
	}
	return ""
}

func (p *policies) reconfigured(ref string, spec *types.VirtualMachineConfigSpec) {
	vm := p.lab.vm(ref)
	if vm == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(ref)
	if profile := profileOf(spec.VmProfile); profile != "" {
		p.homes[ref] = profile
	}
	added := &additions{there: map[int32]bool{}}
	for _, key := range diskKeys(vm) {
		added.there[key] = true
	}
	for _, change := range spec.DeviceChange {
		device := change.GetVirtualDeviceConfigSpec()
		disk, ok := device.Device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		profile := profileOf(device.Profile)
		switch device.Operation {
		case types.VirtualDeviceConfigSpecOperationAdd:
			added.profiles = append(added.profiles, profile)
		case types.VirtualDeviceConfigSpecOperationEdit:
			if profile != "" {
				p.disk(ref)[disk.Key] = profile
			}
		}
	}
	if len(added.profiles) > 0 {
		p.waiting[ref] = added
	}
}

func (p *policies) disk(ref string) map[int32]string {
	if p.disks[ref] == nil {
		p.disks[ref] = map[int32]string{}
	}
	return p.disks[ref]
}

// settle gives the policies of added disks to the keys that the simulator chose for them.
func (p *policies) settle(ref string) {
	added := p.waiting[ref]
	vm := p.lab.vm(ref)
	if added == nil || vm == nil {
		return
	}
	delete(p.waiting, ref)
	for _, key := range diskKeys(vm) {
		if added.there[key] || len(added.profiles) == 0 {
			continue
		}
		if added.profiles[0] != "" {
			p.disk(ref)[key] = added.profiles[0]
		}
		added.profiles = added.profiles[1:]
	}
}

func diskKeys(vm *simulator.VirtualMachine) []int32 {
	var keys []int32
	list := object.VirtualDeviceList(vm.Config.Hardware.Device)
	for _, device := range list.SelectByType((*types.VirtualDisk)(nil)) {
		keys = append(keys, device.GetVirtualDevice().Key)
	}
	return keys
}

// PbmQueryAssociatedProfiles answers for VM homes (`vm-1`) and disks (`vm-1:2000`).
func (p *policies) PbmQueryAssociatedProfiles(req *pbmtypes.PbmQueryAssociatedProfiles) soap.HasFault {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := &pbmtypes.PbmQueryAssociatedProfilesResponse{}
	for _, entity := range req.Entities {
		ref, key, isDisk := strings.Cut(entity.Key, ":")
		p.settle(ref)
		profile := p.homes[ref]
		if isDisk {
			number, _ := strconv.Atoi(key)
			profile = p.disks[ref][int32(number)]
		}
		result := pbmtypes.PbmQueryProfileResult{Object: entity}
		if profile != "" {
			result.ProfileId = []pbmtypes.PbmProfileId{{UniqueId: profile}}
		}
		answer.Returnval = append(answer.Returnval, result)
	}
	return &methods.PbmQueryAssociatedProfilesBody{Res: answer}
}
