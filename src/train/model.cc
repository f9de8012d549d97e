#include "train/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace passing::train {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "passing-model";
constexpr double kFirstBucket = 1024.0 * 1024;
constexpr double kBucket = 25 * kFirstBucket;

tl::unexpected<Error> refuse(const std::string& path, const std::string& what) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} {}: docs/train.md says what a model file is", path, what));
}

// What keeps a layer from being one; empty: nothing.
std::string complaint(const json& layer) {
  if (!layer.is_object()) return "is no object";
  for (const char* field : {"parameters", "forward_seconds", "backward_seconds"}) {
    const auto found = layer.find(field);
    const bool fits = found != layer.end() && found->is_number() && found->get<double>() >= 0 &&
                      found->get<double>() <= 1e12;
    if (fits) continue;
    return fmt::format("has {} {}: must be a number from 0 on", field,
                       found == layer.end() ? "missing" : found->dump());
  }
  return "";
}

}  // namespace

std::size_t Model::parameters() const {
  std::size_t sum = 0;
  for (const Layer& each : layers) sum += each.parameters;
  return sum;
}

double Model::forward_seconds() const {
  double sum = 0;
  for (const Layer& each : layers) sum += each.forward_seconds;
  return sum;
}

double Model::backward_seconds() const {
  double sum = 0;
  for (const Layer& each : layers) sum += each.backward_seconds;
  return sum;
}

std::size_t Schedule::elements() const {
  std::size_t sum = 0;
  for (const Bucket& each : buckets) sum += each.elements;
  return sum;
}

Expected<Model> read_model(const std::string& path) {
  std::ifstream file(path);
  if (!file) return refuse(path, fmt::format("cannot be read ({})", std::strerror(errno)));
  if (std::filesystem::is_directory(path)) return refuse(path, "is a directory");
  const json content = json::parse(file, nullptr, false);
  if (!content.is_object()) return refuse(path, "is not JSON");
  if (content.value("format", json()) != kFormat || content.value("version", json()) != 1)
    return refuse(path, fmt::format("must have \"format\": \"{}\" and \"version\": 1", kFormat));
  for (const char* field : {"model", "gpu", "source"}) {
    if (!content.value(field, json()).is_string())
      return refuse(path, fmt::format("has no text \"{}\"", field));
  }
  for (const char* field : {"batch", "samples_per_second"}) {
    const json value = content.value(field, json());
    if (!value.is_number() || !(value.get<double>() > 0))
      return refuse(path, fmt::format("has \"{}\" {}: must be a number above 0", field, value.dump()));
  }
  const json layers = content.value("layers", json());
  if (!layers.is_array() || layers.empty()) return refuse(path, "has no list of \"layers\"");
  Model model{.name = content["model"],
              .gpu = content["gpu"],
              .batch = std::max(1U, content["batch"].get<unsigned>()),
              .samples_per_second = content["samples_per_second"],
              .source = content["source"],
              .layers = {}};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (const std::string wrong = complaint(layers[i]); !wrong.empty())
      return refuse(path, fmt::format("is wrong: layers[{}] {}", i, wrong));
    const json name = layers[i].value("name", json());
    model.layers.push_back({.name = name.is_string() ? name.get<std::string>() : std::to_string(i),
                            .parameters = layers[i]["parameters"].get<std::size_t>(),
                            .forward_seconds = layers[i]["forward_seconds"],
                            .backward_seconds = layers[i]["backward_seconds"]});
  }
  if (model.parameters() == 0) return refuse(path, "has no parameters in any layer");
  return model;
}

Schedule schedule(const Model& model, double scale) {
  Schedule made{.forward_seconds = model.forward_seconds(), .buckets = {}};
  double elements = 0;
  const auto close = [&] {
    made.buckets.push_back({.elements = static_cast<std::size_t>(std::max(1.0, std::round(elements / scale))),
                            .ready_seconds = made.backward_seconds});
    elements = 0;
  };
  for (auto layer = model.layers.rbegin(); layer != model.layers.rend(); ++layer) {
    made.backward_seconds += layer->backward_seconds;
    elements += static_cast<double>(layer->parameters);
    if (layer->parameters > 0 && sizeof(float) * elements >= (made.buckets.empty() ? kFirstBucket : kBucket))
      close();
  }
  if (elements > 0) close();
  return made;
}

}  // namespace passing::train
