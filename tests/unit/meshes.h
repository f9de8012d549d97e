// Two or more meshes of one group, moved by one thread, and strangers that come to them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <vector>

#include "net/mesh_connection.h"

namespace passing::net {

using Status = Transfer::Status;
constexpr std::uint64_t kAll = ~std::uint64_t{0};

class Meshes : public testing::Test {
 protected:
  void make(std::uint32_t size, std::uint64_t group = 7) {
    std::vector<SocketAddress> addresses;
    for (std::uint32_t r = 0; r < size; ++r) {
      auto mesh = Mesh::create(r, size, *parse_address("127.0.0.1:0"));
      ASSERT_TRUE(mesh) << mesh.error().message;
      meshes.push_back(std::move(*mesh));
      addresses.push_back(meshes.back()->address());
    }
    for (auto& each : meshes) each->introduce(addresses, group);
  }
  template <class Condition>
  bool eventually(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      for (auto& each : meshes) {
        if (each) each->progress();
      }
      if (condition()) return true;
    }
    return false;
  }
  int stranger(std::uint32_t rank) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const SocketAddress& there = meshes[rank]->address();
    EXPECT_EQ(::connect(descriptor, there.get(), there.length), 0);
    return descriptor;
  }
  // Whether the mesh has closed its end.
  bool refused(int descriptor) {
    return eventually([&] {
      char byte = 0;
      return ::recv(descriptor, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
    });
  }

  std::vector<std::unique_ptr<Mesh>> meshes;
};

}  // namespace passing::net
