package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// cloner does what a vCenter does and the simulator does not: a clone's order may hold a
// configuration, and the clone has it before its task ends.
type cloner struct {
	*simulator.VirtualMachine
	lab *lab
}

// CloneVMTask clones, then applies the order's configuration, in one task.
func (c *cloner) CloneVMTask(ctx *simulator.Context, req *types.CloneVM_Task) soap.HasFault {
	config := req.Spec.Config
	req.Spec.Config = nil
	task := simulator.CreateTask(c.VirtualMachine, "cloneVm", func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		inner := c.lab.wait(c.VirtualMachine.CloneVMTask(ctx, req))
		if inner.Info.Error != nil {
			return nil, inner.Info.Error.Fault
		}
		ref := inner.Info.Result.(types.ManagedObjectReference)
		if config != nil {
			clone := c.lab.vm(ref.Value)
			done := c.lab.wait(clone.ReconfigVMTask(ctx, &types.ReconfigVM_Task{This: ref, Spec: *config}))
			if done.Info.Error != nil {
				return nil, done.Info.Error.Fault
			}
		}
		return ref, nil
	})
	return &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: task.Run(ctx)}}
}

func (l *lab) wait(answer soap.HasFault) *simulator.Task {
	var ref types.ManagedObjectReference
	switch body := answer.(type) {
	case *methods.CloneVM_TaskBody:
		ref = body.Res.Returnval
	case *methods.ReconfigVM_TaskBody:
		ref = body.Res.Returnval
	}
	task := l.ctx.Map.Get(ref).(*simulator.Task)
	task.Wait()
	return task
}
