/* Idempotency keys. `crypto.randomUUID` exists only with TLS or on this machine. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return "web-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
