package main

import (
	"fmt"
	"reflect"
	"sort"
	"sync"

	pbm "github.com/vmware/govmomi/pbm/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
	_ "github.com/vmware/govmomi/vsan/simulator"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

var _ = pbm.New

const (
	gib          = int64(1) << 30
	templateName = "ubuntu-24.04"
	sourceName   = "golden"
)

// lab is a datacenter DC0 with a cluster DC0_C0, a template, a VM with a snapshot, and strangers.
type lab struct {
	model       *simulator.Model
	service     *simulator.Service
	ctx         *simulator.Context
	performance *performance
	policies    *policies
	vsanKind    string
	vsan        *vsanState
	clocks      map[string]*dateTime

	mu        sync.Mutex
	boot      boot
	leases    int
	taskFault string
	configs   map[string]*types.VirtualMachineConfigSpec
}

func newLab(hosts, datastores, strangers int, vsanKind string) (*lab, error) {
	model := simulator.VPX()
	model.Host, model.ClusterHost, model.Datastore, model.Machine = 0, hosts, datastores, strangers+2
	model.Pool = 1
	if err := model.Create(); err != nil {
		return nil, err
	}
	model.Service.RegisterEndpoints = true
	l := &lab{
		model: model, service: model.Service, ctx: model.Service.Context,
		vsanKind: vsanKind, boot: boot{Delay: 0.02}, configs: map[string]*types.VirtualMachineConfigSpec{},
	}
	l.ctx.Map.Handler = l.handle
	return l, l.furnish()
}

// furnish makes the template and the source with a snapshot of two of the VMs, and sets known sizes.
func (l *lab) furnish() error {
	about := &l.ctx.Map.Get(simulatorRoot).(*simulator.ServiceInstance).Content.About
	about.ApiVersion, about.Version = "8.0.3.0", "8.0.3"
	var machines []*simulator.VirtualMachine
	for _, entity := range l.ctx.Map.All("VirtualMachine") {
		machines = append(machines, entity.(*simulator.VirtualMachine))
	}
	sort.Slice(machines, func(i, j int) bool { return machines[i].Name < machines[j].Name })
	last := machines[len(machines)-2:]
	for i, name := range []string{templateName, sourceName} {
		vm := last[i]
		l.rename(vm, name)
		l.finish(vm.PowerOffVMTask(l.ctx, &types.PowerOffVM_Task{This: vm.Self}))
	}
	last[0].MarkAsTemplate(&types.MarkAsTemplate{This: last[0].Self})
	l.finish(last[1].CreateSnapshotTask(l.ctx, &types.CreateSnapshot_Task{This: last[1].Self, Name: "base"}))
	for _, entity := range l.ctx.Map.All("Datastore") {
		store := entity.(*simulator.Datastore)
		store.Summary.Capacity, store.Summary.FreeSpace = 4096*gib, 4000*gib
		store.Info.GetDatastoreInfo().FreeSpace = store.Summary.FreeSpace
		if l.vsanKind != "" && store.Name == "LocalDS_0" {
			store.Summary.Type = "vsan"
		}
	}
	if l.vsanKind != "" {
		on, esa := true, l.vsanKind == "esa"
		cluster := l.ctx.Map.Any("ClusterComputeResource").(*simulator.ClusterComputeResource)
		cluster.ConfigurationEx.(*types.ClusterConfigInfoEx).VsanConfigInfo = &types.VsanClusterConfigInfo{
			Enabled: &on, VsanEsaEnabled: &esa,
		}
	}
	return nil
}

func (l *lab) rename(vm *simulator.VirtualMachine, name string) {
	l.ctx.Update(vm, []types.PropertyChange{
		{Name: "name", Val: name}, {Name: "config.name", Val: name}, {Name: "summary.config.name", Val: name},
	})
}

// finish waits for the task of an answer.
func (l *lab) finish(answer soap.HasFault) {
	value := reflect.ValueOf(answer).Elem().FieldByName("Res")
	if value.IsNil() {
		return
	}
	ref := value.Elem().FieldByName("Returnval").Interface().(types.ManagedObjectReference)
	l.ctx.Map.Get(ref).(*simulator.Task).Wait()
}

// extend puts what the simulator lacks in the place of its own objects, once its endpoints are there.
func (l *lab) extend() {
	l.failTasks()
	l.wind()
	l.vsan = newVsanState()
	l.performance = newPerformance(l)
	l.policies = newPolicies(l)
	l.service.RegisterSDK(l.policies.registry)
	if l.vsanKind != "" {
		registry := newVsan(l)
		l.vsan.register(registry)
		l.service.RegisterSDK(registry)
	}
}

// announce tells the simulator its address, which it puts into the URLs of uploads.
func (l *lab) announce(address string) {
	l.service.Listen.Scheme, l.service.Listen.Host = "https", address
	l.ctx.Map.OptionManager().UpdateOptions(&types.UpdateOptions{
		ChangedValue: []types.BaseOptionValue{
			&types.OptionValue{Key: "vcsim.server.url", Value: "https://" + address + "/sdk"},
		},
	})
}

// handle sees every decoded call before the simulator does.
func (l *lab) handle(_ *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if order, ok := method.Body.(*types.CloneVM_Task); ok && order.Spec.Config != nil {
		l.mu.Lock()
		l.configs[order.Name] = order.Spec.Config
		l.mu.Unlock()
	}
	if l.policies != nil {
		l.policies.note(method)
	}
	return nil, nil
}

// configure does what a vCenter does and the simulator does not: a clone's order may hold a
// configuration, and the clone has it when its task has ended.
func (l *lab) configure(name, task string) {
	l.mu.Lock()
	config := l.configs[name]
	delete(l.configs, name)
	l.mu.Unlock()
	done, ok := l.ctx.Map.Get(types.ManagedObjectReference{Type: "Task", Value: task}).(*simulator.Task)
	if !ok || config == nil {
		return
	}
	done.Wait()
	ref, ok := done.Info.Result.(types.ManagedObjectReference)
	if vm := l.vm(ref.Value); ok && vm != nil {
		config.DeviceChange = nil // the simulator does these
		l.finish(vm.ReconfigVMTask(l.ctx, &types.ReconfigVM_Task{This: ref, Spec: *config}))
	}
}

// failTasks registers the object whose tasks fail; the gate sends a call that is to fail to it.
func (l *lab) failTasks() {
	l.ctx.Map.Put(&failing{
		Self: types.ManagedObjectReference{Type: failingKind, Value: failingName}, lab: l,
	})
}

const failingKind, failingName = "Failing", "failing"

func newFault(name string) types.BaseMethodFault {
	kind, ok := types.TypeFunc()(name)
	if ok {
		if fault, ok := reflect.New(kind).Interface().(types.BaseMethodFault); ok {
			return fault
		}
	}
	return &types.SystemErrorFault{Reason: name}
}

// failing stands in for an object: each of its tasks ends in the fault that was asked for.
type failing struct {
	Self types.ManagedObjectReference
	lab  *lab
}

func (f *failing) Reference() types.ManagedObjectReference { return f.Self }

func (f *failing) task(ctx *simulator.Context, name string) types.ManagedObjectReference {
	f.lab.mu.Lock()
	fault := newFault(f.lab.taskFault)
	f.lab.mu.Unlock()
	return simulator.CreateTask(f, name, func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		return nil, fault
	}).Run(ctx)
}

func (f *failing) CloneVMTask(ctx *simulator.Context, _ *types.CloneVM_Task) soap.HasFault {
	return &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: f.task(ctx, "cloneVm")}}
}

func (f *failing) ReconfigVMTask(ctx *simulator.Context, _ *types.ReconfigVM_Task) soap.HasFault {
	return &methods.ReconfigVM_TaskBody{Res: &types.ReconfigVM_TaskResponse{Returnval: f.task(ctx, "reconfigVm")}}
}

func (f *failing) PowerOnVMTask(ctx *simulator.Context, _ *types.PowerOnVM_Task) soap.HasFault {
	return &methods.PowerOnVM_TaskBody{Res: &types.PowerOnVM_TaskResponse{Returnval: f.task(ctx, "powerOn")}}
}

func (f *failing) PowerOffVMTask(ctx *simulator.Context, _ *types.PowerOffVM_Task) soap.HasFault {
	return &methods.PowerOffVM_TaskBody{Res: &types.PowerOffVM_TaskResponse{Returnval: f.task(ctx, "powerOff")}}
}

func (f *failing) DestroyTask(ctx *simulator.Context, _ *types.Destroy_Task) soap.HasFault {
	return &methods.Destroy_TaskBody{Res: &types.Destroy_TaskResponse{Returnval: f.task(ctx, "destroy")}}
}

func (f *failing) ReconfigureComputeResourceTask(ctx *simulator.Context, _ *types.ReconfigureComputeResource_Task) soap.HasFault {
	return &methods.ReconfigureComputeResource_TaskBody{
		Res: &types.ReconfigureComputeResource_TaskResponse{Returnval: f.task(ctx, "reconfigureCluster")},
	}
}

// inventory is everything there is, in words that are equal exactly when nothing changed.
func (l *lab) inventory() []string {
	var lines []string
	for _, kind := range []string{
		"Datacenter", "Folder", "ClusterComputeResource", "ResourcePool", "HostSystem", "Datastore", "Network",
		"DistributedVirtualPortgroup", "VirtualMachine",
	} {
		for _, entity := range l.ctx.Map.All(kind) {
			l.ctx.WithLock(entity, func() { lines = append(lines, describe(kind, entity)) })
		}
	}
	sort.Strings(lines)
	return lines
}

func describe(kind string, entity mo.Entity) string {
	line := kind + " " + entity.Entity().Name
	switch x := entity.(type) {
	case *simulator.VirtualMachine:
		disks := object.VirtualDeviceList(x.Config.Hardware.Device).SelectByType((*types.VirtualDisk)(nil))
		line += fmt.Sprintf(" %s %s cpus=%d memory=%d disks=%d template=%t extra=%d", x.Config.InstanceUuid,
			x.Runtime.PowerState, x.Config.Hardware.NumCPU, x.Config.Hardware.MemoryMB, len(disks),
			x.Config.Template, len(x.Config.ExtraConfig))
	case *simulator.ClusterComputeResource:
		config := x.ConfigurationEx.(*types.ClusterConfigInfoEx)
		for _, rule := range config.Rule {
			line += " rule=" + rule.GetClusterRuleInfo().Name
		}
		line += fmt.Sprintf(" overrides=%d", len(config.DrsVmConfig))
	}
	return line
}

func (l *lab) byName(kind, name string) mo.Entity {
	for _, entity := range l.ctx.Map.All(kind) {
		if entity.Entity().Name == name {
			return entity
		}
	}
	return nil
}
