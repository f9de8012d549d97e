// Two or more meshes of one group, moved by one thread, and strangers that come to them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "net/mesh_connection.h"

namespace passing::net {

using Status = Transfer::Status;
constexpr std::uint64_t kAll = ~std::uint64_t{0};

class Meshes : public testing::Test {
 protected:
  void make(std::uint32_t size, std::uint64_t group = 7, const Key& key = {}) {
    std::vector<SocketAddress> addresses;
    for (std::uint32_t r = 0; r < size; ++r) {
      auto mesh = Mesh::create(r, size, *parse_address("127.0.0.1:0"));
      ASSERT_TRUE(mesh) << mesh.error().message;
      meshes.push_back(std::move(*mesh));
      addresses.push_back(meshes.back()->socket_address());
    }
    for (auto& each : meshes) each->introduce(addresses, group, key);
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
    const SocketAddress& there = meshes[rank]->socket_address();
    EXPECT_EQ(::connect(descriptor, there.get(), there.length), 0);
    return descriptor;
  }
  // Whether the mesh has closed its end.
  bool refused(int descriptor) {
    return eventually([&] {
      char words[512];
      const ssize_t got = ::recv(descriptor, words, sizeof words, MSG_DONTWAIT);
      return got == 0 || (got < 0 && errno == ECONNRESET);
    });
  }
  // What the mesh says next.
  std::string hear(int descriptor, std::size_t bytes) {
    std::string words;
    eventually([&] {
      char byte = 0;
      while (words.size() < bytes && ::recv(descriptor, &byte, 1, MSG_DONTWAIT) == 1) words += byte;
      return words.size() == bytes;
    });
    return words;
  }
  static std::string frame(FrameType type, std::uint64_t tag, std::uint64_t id, std::uint64_t bytes = 0) {
    const FrameHeader header{.type = type, .tag = tag, .id = id, .bytes = bytes};
    return {reinterpret_cast<const char*>(&header), sizeof header};
  }
  // The whole first words of a dialler, with a proof of this meeting by this key.
  static std::string hello(const Meeting& meeting, const Key& key = {}, Side side = Side::dialler,
                           std::uint32_t version = FrameHeader::kVersion) {
    const Proof proof = prove(key, meeting, side);
    return frame(static_cast<FrameType>(meeting.purpose), std::uint64_t{version} << 32 | meeting.dialler,
                 meeting.group, sizeof(Nonce) + sizeof proof) +
           text(meeting.of_dialler) + text(proof);
  }
  template <class T>
  static std::string text(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  // Takes the challenge of rank `to`.
  Meeting meet(int descriptor, std::uint32_t to, std::uint32_t as, FrameType first = FrameType::hello) {
    const std::string challenge = hear(descriptor, sizeof(FrameHeader) + sizeof(Nonce));
    Meeting meeting{.acceptor = to, .dialler = as, .group = 7, .purpose = static_cast<std::uint32_t>(first)};
    std::memcpy(&meeting.of_acceptor, challenge.data() + sizeof(FrameHeader), sizeof(Nonce));
    return meeting;
  }

  std::vector<std::unique_ptr<Mesh>> meshes;
};

}  // namespace passing::net
