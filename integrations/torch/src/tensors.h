// Tensors as the communicator takes them: in one piece of the host's memory.
#pragma once

#include <ATen/ATen.h>
#include <passing/types.h>

#include <vector>

#include "base.h"

namespace passing::torch_backend {

/// Throws a sentence unless it is a dense tensor in the host's memory.
void check(const char* call, const at::Tensor& tensor);
/// The only one of a list, checked.
at::Tensor& only(const char* call, std::vector<at::Tensor>& tensors);
/// A list of tensors of one type, as many as there are ranks.
std::vector<at::Tensor>& one_each(const char* call, std::vector<std::vector<at::Tensor>>& lists, int size);

/// The element type of a reduction. What only moves goes as bytes, whatever it is.
DataType type_of(const char* call, const at::Tensor& tensor);
Reduction reduction_of(const char* call, const c10d::ReduceOp& op);

/// Memory in one piece that stands for a tensor: its own, or a copy.
class Piece {
 public:
  /// `filled`: with what is in the tensor. `apart`: a copy in any case, since others use its memory.
  Piece(const at::Tensor& tensor, bool filled, bool apart = false);

  void* data() const { return memory_.data_ptr(); }
  const at::Tensor& memory() const { return memory_; }
  bool copied() const { return !memory_.is_same(tensor_); }
  /// To the tensor, if it is not there already.
  void give_back() const;

 private:
  at::Tensor tensor_;
  at::Tensor memory_;
};

/// Whether two tensors have memory in common, as far as one can tell from their first and last elements.
bool overlap(const at::Tensor& a, const at::Tensor& b);

/// The same for several tensors, one behind the other.
class Row {
 public:
  /// `apart`: a copy in any case.
  Row(const std::vector<at::Tensor>& tensors, bool filled, bool apart = false);

  void* data() const { return memory_.data_ptr(); }
  const at::Tensor& memory() const { return memory_; }
  void give_back() const;
  /// Whether a tensor of the caller's has memory that is used for it, other than `own` of its tensors.
  bool overlaps(const at::Tensor& tensor, std::size_t own) const;
  /// Whether all tensors have as many bytes.
  bool even() const;
  std::vector<std::size_t> bytes() const;

 private:
  std::vector<at::Tensor> tensors_;
  at::Tensor memory_;
  bool copied_ = false;
};

}  // namespace passing::torch_backend
