// What Python sees: passing.torch imports it.
// clang-format off: first, so that the build proves that it compiles alone
#include "base.h"
// clang-format on

#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"

namespace py = pybind11;
using passing::torch_backend::Base;
using passing::torch_backend::PassingBackend;

namespace {

PassingBackend& ours(const c10::intrusive_ptr<Base>& group) {
  auto* backend = dynamic_cast<PassingBackend*>(group.get());
  TORCH_CHECK(backend != nullptr, "passing: this process group is of another backend");
  return *backend;
}

// As torchrun names them.
py::dict place_from_environment() {
  const auto config = passing::Config::from_environment();
  if (!config) throw py::value_error("passing: " + config.error().message);
  py::dict place;
  place["rank"] = config->rank;
  place["world_size"] = config->size;
  place["local_rank"] = config->local_rank;
  place["local_world_size"] = config->local_size;
  place["job"] = config->job;
  return place;
}

}  // namespace

PYBIND11_MODULE(_backend, module) {
  module.doc() = "The c10d backend of PASSING; import passing.torch instead.";
  module.def("create", &PassingBackend::create, py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "explain",
      [](const c10::intrusive_ptr<Base>& group, std::size_t elements, const at::Tensor& example) {
        return ours(group).explain(elements, example);
      },
      py::arg("group"), py::arg("elements"), py::arg("example"));
  module.def("place_from_environment", &place_from_environment);
  module.def("leave_all", &PassingBackend::leave_all, py::call_guard<py::gil_scoped_release>());
  module.def(
      "leave", [](const c10::intrusive_ptr<Base>& group) { ours(group).leave(); }, py::arg("group"));
}
