// The c10d backend "passing".
#pragma once

#include <passing/communicator.h>

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base.h"
#include "work.h"

namespace passing::torch_backend {

/// One process group: a communicator of its own, on the public API. Calls return at once.
class PassingBackend final : public Base {
 public:
  /// Returns when all ranks of the group are there; throws a sentence otherwise.
  static c10::intrusive_ptr<Base> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                         std::chrono::milliseconds timeout);
  PassingBackend(c10::intrusive_ptr<c10d::Store> store, Communicator communicator,
                 std::chrono::milliseconds timeout);
  ~PassingBackend() override;

  const std::string getBackendName() const override { return "passing"; }
  /// Which way an all-reduce of so many float32 goes, and why.
  /// Of an all-reduce of so many elements of the type of `example`.
  std::string explain(std::size_t elements, const at::Tensor& example);
  /// Ends what is under way, and leaves the group; only errors come after it. Whoever still has a reference,
  /// as DDP has, does not keep the switch waiting.
  void leave();
  /// The same for all groups of this process: before Python ends, while callbacks can still run.
  static void leave_all();

  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(Outputs& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(Outputs& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(Outputs& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, Outputs& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, Outputs& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

 private:
  struct Running {
    c10::intrusive_ptr<c10d::Store> store;
    // In this order: when the communicator goes, everything ends, and the completer finishes it.
    Completer completer;
    Communicator communicator;
  };
  /// For the time of a call: another thread may leave meanwhile. Throws after that.
  std::shared_ptr<Running> running();
  CallOptions within(std::chrono::milliseconds timeout) const;
  WorkPtr begin(Running& running, Call call);
  WorkPtr receive(Tensors& tensors, std::uint32_t from, int tag, c10d::OpType type, const char* title);
  WorkPtr gather_all(Call call, const std::vector<Tensors>& lists, const Tensors& inputs,
                     const CallOptions& options);

  const std::chrono::milliseconds timeout_;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::atomic<std::uint64_t> monitored_ = 0;
  std::mutex mutex_;
  std::shared_ptr<Running> running_;
  std::list<Operation> pending_;  // collectives: what a barrier waits for
};

}  // namespace passing::torch_backend
