// socket: what the kernel says about a connection.
#pragma once

namespace ef {

/// Has the peer's kernel acknowledged all that was sent, so that neither a close nor a reset can lose
/// it any more? True also for a connection that has broken and for a socket that is not TCP's, whose
/// bytes wait with the reader.
///
/// close() with unread bytes, or bytes that come after it, make TCP reset the connection and throw away
/// what it had not sent yet (RFC 1122 4.2.2.13): whoever says the last word waits for this first.
bool delivered(int socket) noexcept;

}  // namespace ef
