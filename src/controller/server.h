// The controller's HTTP/JSON interface: docs/controller.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "controller/registry.h"

namespace passing::controller {

/// Serves a registry until destroyed. Handlers never wait for other members.
class Server {
 public:
  struct Options {
    std::string host = "0.0.0.0";
    std::uint16_t port = 9001;  ///< 0: any
    int mtu = 1500;
    std::string dataplane = "userspace";
    bool segmentation = true;
  };

  static Expected<std::unique_ptr<Server>> start(Registry& registry, dataplane::Dataplane& dataplane,
                                                 const Options& options);
  ~Server();

  std::uint16_t port() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace passing::controller
