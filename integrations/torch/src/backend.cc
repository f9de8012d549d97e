#include "backend.h"

#include <Python.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "tensors.h"

namespace passing::torch_backend {
namespace {

constexpr DataType kBytes = DataType::uint8;

// Python may be what waits for this thread.
class WithoutPython {
 public:
  WithoutPython() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutPython() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutPython(const WithoutPython&) = delete;
  WithoutPython& operator=(const WithoutPython&) = delete;

 private:
  PyThreadState* state_;
};

std::uint32_t root_of(const char* call, std::int64_t root, int size) {
  TORCH_CHECK(root >= 0 && root < size, "passing: ", call, ": the root is rank ", root, " of ", size);
  return static_cast<std::uint32_t>(root);
}

void check_tag(const char* call, int tag) {
  TORCH_CHECK(tag >= 0, "passing: ", call, ": the tag is ", tag, ": must not be negative");
}

void check_peer(const char* call, int peer, int size) {
  TORCH_CHECK(peer >= 0 && peer < size, "passing: ", call, ": the peer is rank ", peer, " of ", size);
}

void check_same_type(const char* call, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "passing: ", call, ": tensors of ", a.scalar_type(),
              " and of ", b.scalar_type(), " in one call");
}

void check_whole(const char* call, const at::Tensor& whole, const at::Tensor& part, int size) {
  check(call, whole);
  check(call, part);
  check_same_type(call, whole, part);
  TORCH_CHECK(whole.numel() == part.numel() * size, "passing: ", call, ": one tensor has ", whole.numel(),
              " elements, the other ", part.numel(), ": must be ", size, " times as many, one part per rank");
}

// Bytes for each rank: the splits say how many rows of the first dimension.
std::vector<std::size_t> split_bytes(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                                     int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, "passing: all_to_all: ", rows, " rows do not split evenly among ", size,
                " ranks: give the split sizes");
    return std::vector<std::size_t>(ranks, tensor.nbytes() / ranks);
  }
  TORCH_CHECK(splits.size() == ranks, "passing: all_to_all: ", splits.size(), " split sizes for ", size,
              " ranks");
  TORCH_CHECK(std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) == rows,
              "passing: all_to_all: the split sizes add up to ",
              std::accumulate(splits.begin(), splits.end(), std::int64_t{0}), ", the tensor has ", rows,
              " rows");
  std::vector<std::size_t> bytes;
  for (const std::int64_t each : splits) {
    TORCH_CHECK(each >= 0, "passing: all_to_all: a split size is ", each);
    bytes.push_back(
        rows == 0 ? 0 : tensor.nbytes() / static_cast<std::size_t>(rows) * static_cast<std::size_t>(each));
  }
  return bytes;
}

}  // namespace

PassingBackend::PassingBackend(c10::intrusive_ptr<c10d::Store> store, Communicator communicator,
                               std::chrono::milliseconds timeout)
    : Base(static_cast<int>(communicator.rank()), static_cast<int>(communicator.size())),
      timeout_(timeout),
      running_(
          new Running{.store = std::move(store), .completer = {}, .communicator = std::move(communicator)}) {}

PassingBackend::~PassingBackend() { leave(); }

void PassingBackend::leave() {
  const WithoutPython released;
  std::shared_ptr<Running> last;
  const std::lock_guard lock(mutex_);
  last.swap(running_);
  pending_.clear();
}

std::shared_ptr<PassingBackend::Running> PassingBackend::running() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(running_, "passing: the process group has been destroyed");
  return running_;
}

std::string PassingBackend::explain(std::size_t elements, const at::Tensor& example) {
  return running()->communicator.explain(elements, type_of("explain", example));
}

CallOptions PassingBackend::within(std::chrono::milliseconds timeout) const {
  return {.timeout = timeout == c10d::kUnsetTimeout || timeout == kNoTimeout ? timeout_ : timeout};
}

PassingBackend::WorkPtr PassingBackend::begin(Running& running, Call call) {
  if (!c10d::isP2POp(call.type)) {
    ++sequence_;
    const std::lock_guard lock(mutex_);
    pending_.remove_if([](const Operation& each) { return each.test(); });
    pending_.insert(pending_.end(), call.operations.begin(), call.operations.end());
  }
  auto work = c10::make_intrusive<PassingWork>(rank_, std::move(call));
  running.completer.watch(work);
  return work;
}

PassingBackend::WorkPtr PassingBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only("broadcast", tensors);
  const std::uint32_t root = root_of("broadcast", options.rootRank, size_);
  const Piece piece(tensor, true);
  Call call{c10d::OpType::BROADCAST, "passing:broadcast", tensors, {tensors}, {piece.memory()}, {}, {}};
  const auto run = running();
  call.operations = {
      run->communicator.broadcast(piece.data(), tensor.nbytes(), kBytes, root, within(options.timeout))};
  if (piece.copied() && root != static_cast<std::uint32_t>(rank_))
    call.after = [piece] { piece.give_back(); };
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  only("all_reduce", tensors);
  c10d::AllreduceCoalescedOptions same;
  same.reduceOp = options.reduceOp;
  same.timeout = options.timeout;
  return allreduce_coalesced(tensors, same);
}

PassingBackend::WorkPtr PassingBackend::allreduce_coalesced(Tensors& tensors,
                                                            const c10d::AllreduceCoalescedOptions& options) {
  const Reduction reduction = reduction_of("all_reduce", options.reduceOp);
  Call call{tensors.size() == 1 ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED,
            "passing:all_reduce",
            tensors,
            {tensors},
            {},
            {},
            {}};
  for (const at::Tensor& each : tensors) {
    check("all_reduce", each);
    type_of("all_reduce", each);
  }
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    // Each is reduced by itself: those that share memory must not see each other's results.
    bool shared = false;
    for (std::size_t other = 0; other < tensors.size(); ++other)
      shared = shared || (other != i && overlap(tensors[i], tensors[other]));
    pieces.emplace_back(tensors[i], true, shared);
    call.kept.push_back(pieces.back().memory());
  }
  const auto run = running();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    call.operations.push_back(run->communicator.all_reduce(
        pieces[i].data(), pieces[i].data(), static_cast<std::size_t>(tensors[i].numel()),
        type_of("all_reduce", tensors[i]), reduction, within(options.timeout)));
  }
  std::erase_if(pieces, [](const Piece& each) { return !each.copied(); });
  if (!pieces.empty()) {
    call.after = [pieces = std::move(pieces)] {
      for (const Piece& each : pieces) each.give_back();
    };
  }
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only("reduce", tensors);
  const std::uint32_t root = root_of("reduce", options.rootRank, size_);
  const bool here = root == static_cast<std::uint32_t>(rank_);
  const Reduction reduction = reduction_of("reduce", options.reduceOp);
  const DataType type = type_of("reduce", tensor);
  const Piece piece(tensor, true);
  Call call{c10d::OpType::REDUCE, "passing:reduce", tensors, {tensors}, {piece.memory()}, {}, {}};
  const auto run = running();
  call.operations = {run->communicator.reduce(piece.data(), here ? piece.data() : nullptr,
                                              static_cast<std::size_t>(tensor.numel()), type, reduction, root,
                                              within(options.timeout))};
  if (piece.copied() && here) call.after = [piece] { piece.give_back(); };
  return begin(*run, std::move(call));
}

// lists[t][r] gets what rank r has as inputs[t].
PassingBackend::WorkPtr PassingBackend::gather_all(Call call, const std::vector<Tensors>& lists,
                                                   const Tensors& inputs, const CallOptions& options) {
  const auto own = static_cast<std::size_t>(rank_);
  std::vector<Row> rows;
  std::vector<Piece> pieces;
  // Everything is looked at before anything begins: what has begun needs its buffers.
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    const at::Tensor& input = inputs[t];
    check_same_type("all_gather", lists[t][0], input);
    TORCH_CHECK(input.nbytes() == lists[t][own].nbytes(), "passing: all_gather: the input has ",
                input.numel(), " elements, this rank's output ", lists[t][own].numel());
    rows.emplace_back(lists[t], false);
    pieces.emplace_back(input, true, rows.back().overlaps(input, own));
    call.kept.push_back(rows.back().memory());
    call.kept.push_back(pieces.back().memory());
  }
  const auto run = running();
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    void* const from = pieces[t].data();
    void* const to = rows[t].data();
    call.operations.push_back(
        rows[t].even() ? run->communicator.all_gather(from, to, inputs[t].nbytes(), kBytes, options)
                       : run->communicator.all_gatherv(from, to, rows[t].bytes(), kBytes, options));
  }
  call.after = [rows = std::move(rows)] {
    for (const Row& each : rows) each.give_back();
  };
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::allgather(Outputs& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  only("all_gather", inputs);
  const Tensors& list = one_each("all_gather", outputs, size_);
  return gather_all({c10d::OpType::ALLGATHER, "passing:all_gather", inputs, outputs, {}, {}, {}}, {list},
                    inputs, within(options.timeout));
}

PassingBackend::WorkPtr PassingBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  check_whole("_allgather_base", output, input, size_);
  const Piece whole(output, false);
  const char* place =
      static_cast<const char*>(whole.data()) + static_cast<std::size_t>(rank_) * input.nbytes();
  const Piece part(input, true, input.data_ptr() != place && overlap(whole.memory(), input));
  Call call{c10d::OpType::_ALLGATHER_BASE, "passing:_all_gather_base", {input}, {{output}}, {}, {}, {}};
  call.kept = {whole.memory(), part.memory()};
  const auto run = running();
  call.operations = {run->communicator.all_gather(part.data(), whole.data(), input.nbytes(), kBytes,
                                                  within(options.timeout))};
  if (whole.copied()) call.after = [whole] { whole.give_back(); };
  return begin(*run, std::move(call));
}  // namespace passing::torch_backend

PassingBackend::WorkPtr PassingBackend::allgather_coalesced(Outputs& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == static_cast<std::size_t>(size_), "passing: all_gather_coalesced: got ",
              outputs.size(), " lists of tensors, needs one for each of the ", size_, " ranks of the group");
  for (const Tensors& each : outputs) {
    TORCH_CHECK(each.size() == inputs.size(), "passing: all_gather_coalesced: a list has ", each.size(),
                " tensors, the input ", inputs.size());
  }
  std::vector<Tensors> lists;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    check("all_gather_coalesced", inputs[t]);
    Outputs list(1);
    for (const Tensors& each : outputs) list[0].push_back(each[t]);
    lists.push_back(one_each("all_gather_coalesced", list, size_));
  }
  return gather_all({c10d::OpType::ALLGATHER_COALESCED, "passing:all_gather", inputs, outputs, {}, {}, {}},
                    lists, inputs, within(options.timeout));
}

PassingBackend::WorkPtr PassingBackend::gather(Outputs& outputs, Tensors& inputs,
                                               const c10d::GatherOptions& options) {
  const at::Tensor& input = only("gather", inputs);
  const std::uint32_t root = root_of("gather", options.rootRank, size_);
  const bool here = root == static_cast<std::uint32_t>(rank_);
  TORCH_CHECK(here || outputs.empty(), "passing: gather: only the root, rank ", root, ", has outputs");
  const Row row(here ? one_each("gather", outputs, size_) : Tensors(), false);
  if (here) {
    check_same_type("gather", outputs[0][0], input);
    TORCH_CHECK(row.even() && input.nbytes() == row.bytes()[0],
                "passing: gather: the outputs must all have the size of the input, ", input.numel(),
                " elements");
  }
  const Piece piece(input, true, row.overlaps(input, static_cast<std::size_t>(rank_)));
  Call call{c10d::OpType::GATHER, "passing:gather", inputs, outputs, {row.memory(), piece.memory()}, {}, {}};
  const auto run = running();
  call.operations = {run->communicator.gather(piece.data(), here ? row.data() : nullptr, input.nbytes(),
                                              kBytes, root, within(options.timeout))};
  if (here) call.after = [row] { row.give_back(); };
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::scatter(Tensors& outputs, Outputs& inputs,
                                                const c10d::ScatterOptions& options) {
  const at::Tensor& output = only("scatter", outputs);
  const std::uint32_t root = root_of("scatter", options.rootRank, size_);
  const bool here = root == static_cast<std::uint32_t>(rank_);
  TORCH_CHECK(here || inputs.empty(), "passing: scatter: only the root, rank ", root, ", has inputs");
  const Row row(here ? one_each("scatter", inputs, size_) : Tensors(), true);
  if (here) {
    check_same_type("scatter", inputs[0][0], output);
    TORCH_CHECK(row.even() && output.nbytes() == row.bytes()[0],
                "passing: scatter: the inputs must all have the size of the output, ", output.numel(),
                " elements");
  }
  const Piece piece(output, false, row.overlaps(output, static_cast<std::size_t>(rank_)));
  Call call{c10d::OpType::SCATTER,
            "passing:scatter",
            here ? inputs[0] : Tensors(),
            {outputs},
            {row.memory(), piece.memory()},
            {},
            {}};
  const auto run = running();
  call.operations = {run->communicator.scatter(here ? row.data() : nullptr, piece.data(), output.nbytes(),
                                               kBytes, root, within(options.timeout))};
  if (piece.copied()) call.after = [piece] { piece.give_back(); };
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::reduce_scatter(Tensors& outputs, Outputs& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only("reduce_scatter", outputs);
  const Tensors& list = one_each("reduce_scatter", inputs, size_);
  check_same_type("reduce_scatter", list[0], output);
  const Row row(list, true);
  TORCH_CHECK(row.even() && output.nbytes() == row.bytes()[0],
              "passing: reduce_scatter: the inputs must all have the size of the output, ", output.numel(),
              " elements");
  const Reduction reduction = reduction_of("reduce_scatter", options.reduceOp);
  const DataType type = type_of("reduce_scatter", output);
  // The result may go to where an input was.
  at::Tensor result =
      at::empty(output.sizes(), output.options().requires_grad(false), at::MemoryFormat::Contiguous);
  Call call{c10d::OpType::REDUCE_SCATTER,
            "passing:reduce_scatter",
            list,
            {outputs},
            {row.memory(), result},
            {},
            {}};
  const auto run = running();
  call.operations = {run->communicator.reduce_scatter(row.data(), result.data_ptr(),
                                                      static_cast<std::size_t>(output.numel()), type,
                                                      reduction, within(options.timeout))};
  call.after = [output, result] { output.copy_(result); };
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                             const c10d::ReduceScatterOptions& options) {
  check_whole("_reduce_scatter_base", input, output, size_);
  const Reduction reduction = reduction_of("_reduce_scatter_base", options.reduceOp);
  const DataType type = type_of("_reduce_scatter_base", output);
  const Piece whole(input, true);
  // Often a view of the input.
  at::Tensor result =
      at::empty(output.sizes(), output.options().requires_grad(false), at::MemoryFormat::Contiguous);
  const bool apart = !output.is_alias_of(input) && output.is_contiguous();
  if (apart) result = output;
  Call call{c10d::OpType::_REDUCE_SCATTER_BASE,
            "passing:_reduce_scatter_base",
            {input},
            {{output}},
            {whole.memory(), result},
            {},
            {}};
  const auto run = running();
  call.operations = {run->communicator.reduce_scatter(whole.data(), result.data_ptr(),
                                                      static_cast<std::size_t>(output.numel()), type,
                                                      reduction, within(options.timeout))};
  if (!apart) call.after = [output, result] { output.copy_(result); };
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<int64_t>& output_splits,
                                                      std::vector<int64_t>& input_splits,
                                                      const c10d::AllToAllOptions& options) {
  check("all_to_all", output);
  check("all_to_all", input);
  check_same_type("all_to_all", output, input);
  const auto outgoing = split_bytes(input, input_splits, size_);
  const auto incoming = split_bytes(output, output_splits, size_);
  const Piece from(input, true, overlap(input, output));
  const Piece to(output, false);
  Call call{c10d::OpType::ALLTOALL_BASE,
            "passing:all_to_all",
            {input},
            {{output}},
            {from.memory(), to.memory()},
            {},
            {}};
  const auto run = running();
  call.operations = {run->communicator.all_to_allv(from.data(), outgoing, to.data(), incoming, kBytes,
                                                   within(options.timeout))};
  if (to.copied()) call.after = [to] { to.give_back(); };
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllToAllOptions& options) {
  Outputs to{outputs};
  Outputs from{inputs};
  one_each("all_to_all", to, size_);
  one_each("all_to_all", from, size_);
  check_same_type("all_to_all", outputs[0], inputs[0]);
  Row out(outputs, false);
  const Row in(inputs, true);
  for (const at::Tensor& each : inputs) {
    if (out.overlaps(each, outputs.size())) out = Row(outputs, false, true);
  }
  Call call{
      c10d::OpType::ALLTOALL, "passing:all_to_all", inputs, {outputs}, {out.memory(), in.memory()}, {}, {}};
  const auto run = running();
  call.operations = {run->communicator.all_to_allv(in.data(), in.bytes(), out.data(), out.bytes(), kBytes,
                                                   within(options.timeout))};
  call.after = [out] { out.give_back(); };
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor& tensor = only("send", tensors);
  check_peer("send", to, size_);
  check_tag("send", tag);
  const Piece piece(tensor, true);
  Call call{c10d::OpType::SEND, "passing:send", tensors, {tensors}, {piece.memory()}, {}, {}};
  const auto run = running();
  call.operations = {run->communicator.send(piece.data(), tensor.nbytes(), static_cast<std::uint32_t>(to),
                                            static_cast<std::uint32_t>(tag), within(c10d::kUnsetTimeout))};
  return begin(*run, std::move(call));
}

PassingBackend::WorkPtr PassingBackend::recv(Tensors& tensors, int from, int tag) {
  check_peer("recv", from, size_);
  return receive(tensors, static_cast<std::uint32_t>(from), tag, c10d::OpType::RECV, "passing:recv");
}

PassingBackend::WorkPtr PassingBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, kAnySource, tag, c10d::OpType::RECVANYSOURCE, "passing:recvAnySource");
}

PassingBackend::WorkPtr PassingBackend::receive(Tensors& tensors, std::uint32_t from, int tag,
                                                c10d::OpType type, const char* title) {
  const at::Tensor& tensor = only("recv", tensors);
  check_tag("recv", tag);
  const Piece piece(tensor, false);
  Call call{type, title, tensors, {tensors}, {piece.memory()}, {}, {}};
  const auto run = running();
  call.operations = {run->communicator.recv(piece.data(), tensor.nbytes(), from,
                                            static_cast<std::uint32_t>(tag), within(c10d::kUnsetTimeout))};
  if (piece.copied()) call.after = [piece] { piece.give_back(); };
  return begin(*run, std::move(call));
}

// Everything that this rank began before has ended, too.
PassingBackend::WorkPtr PassingBackend::barrier(const c10d::BarrierOptions& options) {
  Call call{c10d::OpType::BARRIER, "passing:barrier", {}, {}, {}, {}, {}};
  const auto run = running();
  const Operation own = run->communicator.barrier(within(options.timeout));
  auto before = std::make_shared<std::vector<Operation>>();
  {
    const std::lock_guard lock(mutex_);
    before->assign(pending_.begin(), pending_.end());
  }
  call.operations = {own};
  // What failed says so in its own work.
  call.after = [before] {
    for (const Operation& each : *before) static_cast<void>(each.wait());
  };
  return begin(*run, std::move(call));
}

}  // namespace passing::torch_backend
