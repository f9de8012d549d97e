// A model as a GPU sees it: gradients per layer, and the time to compute them. docs/train.md, "Model files".
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"

namespace passing::train {

struct Layer {
  std::string name;
  std::size_t parameters = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
};

/// What a file says. Layers in the order of the forward pass.
struct Model {
  std::string name;
  std::string gpu;
  unsigned batch = 1;
  double samples_per_second = 0;  ///< of one GPU
  std::string source;
  std::vector<Layer> layers;

  std::size_t parameters() const;
  double forward_seconds() const;
  double backward_seconds() const;
};

/// Errors name the file, what is wrong with it, and what to do.
Expected<Model> read_model(const std::string& path);

/// Gradients that are summed together.
struct Bucket {
  std::size_t elements = 0;
  double ready_seconds = 0;  ///< after the backward pass began
};

/// One step, as DistributedDataParallel would do it.
struct Schedule {
  double forward_seconds = 0;
  double backward_seconds = 0;
  std::vector<Bucket> buckets;  ///< in the order in which they are ready

  double compute_seconds() const { return forward_seconds + backward_seconds; }
  std::size_t elements() const;
};

/// From the last layer to the first: a bucket is full at 25 MB, the first one at 1 MB, as in PyTorch. Then
/// sizes are divided by `scale`; times stay as they are.
Schedule schedule(const Model& model, double scale);

}  // namespace passing::train
