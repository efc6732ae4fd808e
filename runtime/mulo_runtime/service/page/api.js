// The service as this page needs it.

export class ServiceError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function headers(token) {
  return { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
}

async function failure(response) {
  const body = await response.json().catch(() => ({}));
  const error = body.error ?? { code: "http", message: `the service answered ${response.status}` };
  const wait = response.headers.get("retry-after");
  const later = wait && response.status === 429 ? ` Try again in ${wait} s.` : "";
  return new ServiceError(response.status, error.code, error.message + later);
}

export async function describeBundle(token) {
  const response = await fetch("v1/bundle", { headers: headers(token) });
  if (!response.ok) throw await failure(response);
  return response.json();
}

// Yields the events of one image: {type, b64_json, mulo, ...}; the last one is completed.
export async function* generate(fields, token, signal) {
  const body = JSON.stringify({ ...fields, stream: true, partial_images: 10000 });
  const response = await fetch("v1/images/generations", { method: "POST", headers: headers(token), body, signal });
  if (!response.ok) throw await failure(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (pending + value).split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) yield parse(block);
  }
}

function parse(block) {
  const event = JSON.parse(block.slice(block.indexOf("data: ") + 6));
  if (event.error) throw new ServiceError(500, event.error.code, event.error.message);
  return event;
}
