#include "endpoint/operation.h"

#include <fmt/format.h>

#include <algorithm>

namespace passing::endpoint {

using numeric::Reduction;
using wire::OperationKind;

std::string Operation::describe() const {
  if (kind == OperationKind::close) return fmt::format("operation {} (leave)", number);
  if (reduction == Reduction::average) {
    return fmt::format("operation {} (average of {} {} over {})", number, elements, numeric::to_string(type),
                       divisor);
  }
  return fmt::format("operation {} (sum of {} {})", number, elements, numeric::to_string(type));
}

Part::Part(const Config& config, std::uint32_t lane, const Operation& op, std::uint64_t at,
           std::uint64_t stream)
    : operation(op), index(at), first_stream(stream) {
  const std::uint64_t all = (op.elements + config.block_elements - 1) / config.block_elements;
  first_block = lane * all / config.lanes;
  blocks = (lane + 1) * all / config.lanes - first_block;
  if (blocks == 0) {
    empty = true;
    blocks = 1;
  }
  hash = wire::operation_hash({static_cast<std::uint32_t>(op.number), static_cast<std::uint32_t>(op.kind),
                               static_cast<std::uint32_t>(op.type), static_cast<std::uint32_t>(op.reduction),
                               static_cast<std::uint32_t>(op.elements),
                               static_cast<std::uint32_t>(op.elements >> 32), op.divisor,
                               config.block_elements, config.elements, config.lanes, config.tree(),
                               config.blocks_ahead(), static_cast<std::uint32_t>(config.order)});
}

std::uint32_t Part::block_size(const Config& config, std::uint64_t b) const {
  if (empty) return 0;
  const std::uint64_t begin = (first_block + b) * config.block_elements;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(config.block_elements, operation.elements - begin));
}

std::uint32_t Part::packet_size(const Config& config, std::uint64_t b, std::uint32_t packet) const {
  return std::min(config.elements, block_size(config, b) - packet * config.elements);
}

std::uint32_t Part::packets(const Config& config, std::uint64_t b) const {
  const std::uint32_t size = block_size(config, b);
  return std::max<std::uint32_t>(1, (size + config.elements - 1) / config.elements);
}

bool Part::has_word(const Config& config, std::uint64_t b) const {
  return numeric::is_float(operation.type) && block_size(config, b) > 0;
}

const std::byte* Part::input(const Config& config, std::uint64_t b, std::uint32_t packet) const {
  return static_cast<const std::byte*>(operation.input) +
         element(config, b, packet) * numeric::size_of(operation.input_type());
}

std::byte* Part::output(const Config& config, std::uint64_t b, std::uint32_t packet) const {
  return static_cast<std::byte*>(operation.output) +
         element(config, b, packet) * numeric::size_of(operation.type);
}

std::size_t Part::element(const Config& config, std::uint64_t b, std::uint32_t packet) const {
  return (first_block + b) * config.block_elements + std::uint64_t{packet} * config.elements;
}

}  // namespace passing::endpoint
