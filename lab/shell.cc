#include "shell.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace passing::lab {

Expected<std::string> run(const std::vector<std::string>& command, const std::string& input) {
  std::string line;
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    line += (line.empty() ? "" : " ") + word;
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", line, std::strerror(errno)));
  }
  const pid_t child = fork();
  if (child < 0) {
    const int problem = errno;
    for (const int each : {in[0], in[1], out[0], out[1]}) close(each);
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", line, std::strerror(problem)));
  }
  if (child == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  // Inputs are small enough for the pipe.
  static_cast<void>(!write(in[1], input.data(), input.size()));
  close(in[1]);
  std::string output;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(out[0], buffer, sizeof buffer)) > 0;)
    output.append(buffer, static_cast<std::size_t>(got));
  close(out[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' cannot be run: install it (iproute2, nftables, ethtool)", command[0]));
  }
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", line, output));
}

}  // namespace passing::lab
