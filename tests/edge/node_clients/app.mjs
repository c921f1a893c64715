// An app made with one of the MCP SDKs for TypeScript: its maker's part of OAuth, and a line of JSON for each command.
//
//     node app.mjs FOLDER-OF-PACKAGES sdk|client URL
//
// Commands come on stdin: {"do": "connect" | "tools" | "call" | "disconnect", ...}. Each is answered by {"result"} or
// {"error"}, with the requests that it took as "METHOD /path status". Between, {"open": URL} asks for a browser, which
// the server then sends back to this app's own callback. A "connect" may name the "document" that the app is known by,
// or the "client" that the owner has registered; else the app registers itself.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [packages, kind, url] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const { Client, StreamableHTTPClientTransport, UnauthorizedError, options } = load();

function load() {
  if (kind === "client") {
    return { ...require("@modelcontextprotocol/client"), options: { versionNegotiation: { mode: "auto" } } };
  }
  return {
    ...require("@modelcontextprotocol/sdk/client/index.js"),
    ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
    ...require("@modelcontextprotocol/sdk/client/auth.js"),
    options: {},
  };
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// Where the browser comes back to: a port of its own, as native apps take one (RFC 8252, 7.3).
let cameBack = () => {};
const callback = createServer((request, response) => {
  cameBack(new URL(request.url, "http://127.0.0.1").searchParams);
  response.end("You may close this page.");
});
await new Promise((listening) => callback.listen(0, "127.0.0.1", listening));
const redirectUrl = `http://127.0.0.1:${callback.address().port}/callback`;

const kept = {};
let returned;
const provider = {
  redirectUrl,
  clientMetadata: {
    client_name: `TypeScript ${kind}`,
    // Without a port, as some apps register: any will do.
    redirect_uris: ["http://127.0.0.1/callback"],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  state: () => "state of the app",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  discoveryState: () => kept.discovery,
  saveDiscoveryState: (discovery) => void (kept.discovery = discovery),
  invalidateCredentials: (what) => {
    if (what === "all" || what === "client") delete kept.client;
    if (what === "all" || what === "tokens") delete kept.tokens;
  },
  redirectToAuthorization: (target) => {
    returned = new Promise((resolve) => (cameBack = resolve));
    say({ open: String(target) });
  },
};

let requests = [];
async function noted(target, init) {
  const response = await fetch(target, init);
  requests.push(`${init?.method ?? "GET"} ${new URL(target).pathname} ${response.status}`);
  return response;
}

let client;
let transport;
async function connect({ document, client: registered }) {
  if (document) provider.clientMetadataUrl = document;
  if (registered) kept.client = registered;
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider, fetch: noted });
  client = new Client({ name: "app", version: "1" }, options);
  await client.connect(transport);
  return { version: transport.protocolVersion };
}

// What needs the owner fails, and goes through once the app has finished with the code that came back.
async function withOwner(action) {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    const told = await returned;
    if (told.get("state") !== provider.state()) throw new Error("another state came back");
    await transport.finishAuth(kind === "client" ? told : told.get("code"));
    return await action();
  }
}

const actions = {
  connect,
  tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  disconnect: async () => {
    await client.close();
    delete kept.tokens;
  },
  call: ({ name, arguments: given }) => client.callTool({ name, arguments: given }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  requests = [];
  try {
    const result = (await withOwner(() => actions[command.do](command))) ?? null;
    say({ result, requests });
  } catch (error) {
    say({ error: `${error.name}: ${error.message}`, requests });
  }
}
await client?.close();
callback.close();
