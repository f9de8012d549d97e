// The switch in Prometheus' text format: docs/controller.md lists the names.
#pragma once

#include <string>
#include <vector>

#include "controller/registry.h"

namespace passing::controller {

std::string metrics_text(const dataplane::Totals& totals, const std::vector<JobView>& jobs);

}  // namespace passing::controller
