#include "communicator/control.h"

#include "strategy/context.h"

namespace passing {

namespace tags = strategy::tags;

Expected<std::unique_ptr<Control>> Control::create(std::uint32_t rank, std::uint32_t size,
                                                   const net::SocketAddress& local) {
  auto mesh = net::Mesh::create(rank, size, local);
  if (!mesh) return tl::unexpected(mesh.error());
  return std::unique_ptr<Control>(new Control(std::move(*mesh), rank, size));
}

void Control::tell(std::uint32_t neighbour, const ControlMessage& message) {
  mesh_->send_urgent(neighbour, tags::kControl | rank_, message.encode());
}

std::optional<Control::Heard> Control::next() {
  while (auto came = mesh_->take(tags::kControl, tags::kClassMask)) {
    auto message = ControlMessage::decode(came->data);
    const std::uint32_t from = tags::source(came->tag);
    if (message && from < size_) return Heard{from, std::move(*message)};
  }
  return std::nullopt;
}

}  // namespace passing
