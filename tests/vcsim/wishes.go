package main

import (
	"fmt"
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// hostWish changes a host's state.
type hostWish struct {
	Name        string `json:"name"`
	Maintenance bool   `json:"maintenance"`
	State       string `json:"state"`
	Blind       bool   `json:"blind"` // sees no datastore
}

func (l *lab) setHost(wish hostWish) error {
	host, ok := l.byName("HostSystem", wish.Name).(*simulator.HostSystem)
	if !ok {
		return fmt.Errorf("no host %q", wish.Name)
	}
	state := types.HostSystemConnectionState(wish.State)
	if state == "" {
		state = types.HostSystemConnectionStateConnected
	}
	changes := []types.PropertyChange{
		{Name: "runtime.inMaintenanceMode", Val: wish.Maintenance},
		{Name: "runtime.connectionState", Val: state},
	}
	if wish.Blind {
		changes = append(changes, types.PropertyChange{Name: "datastore", Val: []types.ManagedObjectReference{}})
	}
	l.ctx.WithLock(host, func() { l.ctx.Update(host, changes) })
	return nil
}

// datastoreWish sets a datastore's known sizes, in bytes.
type datastoreWish struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Free     int64  `json:"free"`
}

func (l *lab) setDatastore(wish datastoreWish) error {
	store, ok := l.byName("Datastore", wish.Name).(*simulator.Datastore)
	if !ok {
		return fmt.Errorf("no datastore %q", wish.Name)
	}
	l.ctx.WithLock(store, func() {
		store.Summary.Capacity, store.Summary.FreeSpace = wish.Capacity, wish.Free
		store.Info.GetDatastoreInfo().FreeSpace = wish.Free
	})
	return nil
}

// eventWish is an event to be posted: its vSphere type, and what it is about, by name.
type eventWish struct {
	Type    string `json:"type"`
	ID      string `json:"id"` // of an EventEx
	VM      string `json:"vm"`
	Host    string `json:"host"`
	Message string `json:"message"`
}

func (l *lab) post(wish eventWish) error {
	kind, ok := types.TypeFunc()(wish.Type)
	if !ok {
		return fmt.Errorf("no event type %q", wish.Type)
	}
	event, ok := reflect.New(kind).Interface().(types.BaseEvent)
	if !ok {
		return fmt.Errorf("%q is not an event", wish.Type)
	}
	if extended, ok := event.(*types.EventEx); ok {
		extended.EventTypeId = wish.ID
		cluster := l.ctx.Map.Any("ClusterComputeResource").Reference()
		extended.ObjectType, extended.ObjectId = cluster.Type, cluster.Value
	}
	base := event.GetEvent()
	base.FullFormattedMessage = wish.Message
	if vm := l.byName("VirtualMachine", wish.VM); vm != nil {
		base.Vm = &types.VmEventArgument{
			EntityEventArgument: types.EntityEventArgument{Name: wish.VM}, Vm: vm.Reference(),
		}
	}
	if host := l.byName("HostSystem", wish.Host); host != nil {
		base.Host = &types.HostEventArgument{
			EntityEventArgument: types.EntityEventArgument{Name: wish.Host}, Host: host.Reference(),
		}
	}
	if cluster := l.ctx.Map.Any("ClusterComputeResource"); cluster != nil {
		base.ComputeResource = &types.ComputeResourceEventArgument{
			EntityEventArgument: types.EntityEventArgument{Name: cluster.Entity().Name},
			ComputeResource:     cluster.Reference(),
		}
	}
	point(reflect.ValueOf(event).Elem(), l.ctx.Map.Any("HostSystem").Reference())
	manager := l.ctx.Map.EventManager()
	l.ctx.WithLock(manager, func() { manager.PostEvent(l.ctx, &types.PostEvent{EventToPost: event}) })
	return nil
}

// point gives every empty reference of an event a value: a vCenter never sends one without a type.
func point(value reflect.Value, ref types.ManagedObjectReference) {
	for i := 0; value.Kind() == reflect.Struct && i < value.NumField(); i++ {
		field := value.Field(i)
		if !field.CanSet() {
			continue
		}
		if found, ok := field.Interface().(types.ManagedObjectReference); ok {
			if found.Type == "" {
				field.Set(reflect.ValueOf(ref))
			}
			continue
		}
		point(field, ref)
	}
}

// vmWish is a VM made by somebody else; Source is cloned, with its settings where Copy is set.
type vmWish struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Copy   bool   `json:"copy"`
}

func (l *lab) addVM(wish vmWish) (any, error) {
	if wish.Source == "" {
		wish.Source = templateName
	}
	source, ok := l.byName("VirtualMachine", wish.Source).(*simulator.VirtualMachine)
	if !ok {
		return nil, fmt.Errorf("no VM %q", wish.Source)
	}
	cluster := l.ctx.Map.Any("ClusterComputeResource").(*simulator.ClusterComputeResource)
	spec := types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: cluster.ResourcePool}}
	dc := l.ctx.Map.Any("Datacenter").(*simulator.Datacenter)
	answer := source.CloneVMTask(l.ctx, &types.CloneVM_Task{
		This: source.Self, Folder: dc.VmFolder, Name: wish.Name, Spec: spec,
	}).(*methods.CloneVM_TaskBody)
	task := l.ctx.Map.Get(answer.Res.Returnval).(*simulator.Task)
	task.Wait()
	if task.Info.Error != nil {
		return nil, fmt.Errorf("clone: %T", task.Info.Error.Fault)
	}
	ref := task.Info.Result.(types.ManagedObjectReference)
	if wish.Copy {
		settings := types.VirtualMachineConfigSpec{ExtraConfig: source.Config.ExtraConfig}
		l.finish(l.vm(ref.Value).ReconfigVMTask(l.ctx, &types.ReconfigVM_Task{This: ref, Spec: settings}))
	}
	return ref.Value, nil
}
