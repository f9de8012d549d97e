#include "tensors.h"

#include <algorithm>
#include <utility>

namespace passing::torch_backend {

void check(const char* call, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), "passing: ", call, ": a tensor is undefined");
  TORCH_CHECK(tensor.layout() == at::kStrided, "passing: ", call, ": a tensor is ", tensor.layout(),
              ", but this backend takes dense ones: use to_dense(), or a group of gloo for it");
  TORCH_CHECK(tensor.device().is_cpu(), "passing: ", call, ": a tensor is on ", tensor.device(),
              ", but this backend takes those on the CPU: use .cpu(), or a group of another backend for it");
}

at::Tensor& only(const char* call, std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "passing: ", call, ": got ", tensors.size(),
              " tensors, takes one (several per process are for several GPUs)");
  check(call, tensors[0]);
  return tensors[0];
}

std::vector<at::Tensor>& one_each(const char* call, std::vector<std::vector<at::Tensor>>& lists, int size) {
  TORCH_CHECK(lists.size() == 1, "passing: ", call, ": got ", lists.size(), " lists of tensors, takes one");
  std::vector<at::Tensor>& list = lists[0];
  TORCH_CHECK(list.size() == static_cast<std::size_t>(size), "passing: ", call, ": got ", list.size(),
              " tensors, needs one for each of the ", size, " ranks of the group");
  for (const at::Tensor& each : list) {
    check(call, each);
    TORCH_CHECK(each.scalar_type() == list[0].scalar_type(), "passing: ", call, ": tensors of ",
                list[0].scalar_type(), " and of ", each.scalar_type(), " in one list");
  }
  return list;
}

DataType type_of(const char* call, const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return DataType::float32;
    case at::kHalf: return DataType::float16;
    case at::kBFloat16: return DataType::bfloat16;
    case at::kDouble: return DataType::float64;
    case at::kChar: return DataType::int8;
    case at::kByte: return DataType::uint8;
    case at::kShort: return DataType::int16;
    case at::kInt: return DataType::int32;
    case at::kLong: return DataType::int64;
    case at::kBool: return DataType::boolean;
    default:
      TORCH_CHECK(false, "passing: ", call, ": tensors of ", tensor.scalar_type(),
                  " cannot be reduced: see the table in docs/numerics.md (complex ones: view_as_real)");
  }
}

Reduction reduction_of(const char* call, const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM: return Reduction::sum;
    case c10d::ReduceOp::AVG: return Reduction::average;
    case c10d::ReduceOp::PRODUCT: return Reduction::product;
    case c10d::ReduceOp::MIN: return Reduction::min;
    case c10d::ReduceOp::MAX: return Reduction::max;
    case c10d::ReduceOp::BAND: return Reduction::bit_and;
    case c10d::ReduceOp::BOR: return Reduction::bit_or;
    case c10d::ReduceOp::BXOR: return Reduction::bit_xor;
    default:
      TORCH_CHECK(false, "passing: ", call,
                  ": PREMUL_SUM is NCCL's: multiply the tensor first, then use SUM");
  }
}

Piece::Piece(const at::Tensor& tensor, bool filled, bool apart) : tensor_(tensor), memory_(tensor) {
  if (tensor.is_contiguous() && !apart) return;
  memory_ = at::empty(tensor.sizes(), tensor.options().requires_grad(false), at::MemoryFormat::Contiguous);
  if (!filled) return;
  const at::NoGradGuard no_grad;
  memory_.copy_(tensor);
}

void Piece::give_back() const {
  if (copied()) tensor_.copy_(memory_);
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || !a.is_alias_of(b)) return false;
  const auto range = [](const at::Tensor& tensor) {
    std::int64_t last = 0;
    for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
    const char* first = static_cast<const char*>(tensor.data_ptr());
    return std::pair(first, first + (last + 1) * static_cast<std::int64_t>(tensor.element_size()));
  };
  const auto [a_first, a_end] = range(a);
  const auto [b_first, b_end] = range(b);
  return a_first < b_end && b_first < a_end;
}

Row::Row(const std::vector<at::Tensor>& tensors, bool filled, bool apart) : tensors_(tensors) {
  std::int64_t elements = 0;
  bool adjacent = !apart;
  const char* next = tensors.empty() ? nullptr : static_cast<const char*>(tensors[0].data_ptr());
  for (const at::Tensor& each : tensors) {
    adjacent = adjacent && each.is_contiguous() && (each.numel() == 0 || each.data_ptr() == next);
    if (adjacent) next += each.nbytes();
    elements += each.numel();
  }
  if (tensors.empty()) {
    memory_ = at::empty({0}, at::kByte);
    return;
  }
  if (adjacent) {
    // Views of one buffer, as FSDP and ZeRO make them.
    memory_ = tensors[0];
    return;
  }
  copied_ = true;
  memory_ = at::empty({elements}, tensors[0].options().requires_grad(false));
  if (!filled) return;
  const at::NoGradGuard no_grad;
  std::int64_t at = 0;
  for (const at::Tensor& each : tensors) {
    memory_.narrow(0, at, each.numel()).view(each.sizes()).copy_(each);
    at += each.numel();
  }
}

void Row::give_back() const {
  if (!copied_) return;
  std::int64_t at = 0;
  for (const at::Tensor& each : tensors_) {
    each.copy_(memory_.narrow(0, at, each.numel()).view(each.sizes()));
    at += each.numel();
  }
}

bool Row::overlaps(const at::Tensor& tensor, std::size_t own) const {
  if (copied_) return false;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const bool same = i == own && tensor.data_ptr() == tensors_[i].data_ptr();
    if (!same && overlap(tensor, tensors_[i])) return true;
  }
  return false;
}

bool Row::even() const {
  return std::all_of(tensors_.begin(), tensors_.end(),
                     [this](const at::Tensor& each) { return each.nbytes() == tensors_[0].nbytes(); });
}

std::vector<std::size_t> Row::bytes() const {
  std::vector<std::size_t> all;
  for (const at::Tensor& each : tensors_) all.push_back(each.nbytes());
  return all;
}

}  // namespace passing::torch_backend
