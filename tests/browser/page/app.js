// A public client of the memory that its address names (?server=ORIGIN), as any web page elsewhere may be: it registers
// itself (RFC 7591), has itself authorized with PKCE (RFC 7636) and calls REST with the token. No library.

const SCOPE = 'memory:read memory:write';
const KEPT = 'flow';
const here = location.origin + location.pathname;
const by = (id) => document.getElementById(id);
let token = null;

const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const challengeOf = async (verifier) =>
  base64url(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))));

async function answer(what, url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    // What a browser says of an answer that it may not show to the page.
    throw new Error(`${what}: ${error.message}`);
  }
  const told = await response.json();
  if (!response.ok) {
    throw new Error(`${what}: ${response.status} ${told.error_description ?? told.error?.message ?? ''}`);
  }
  return told;
}

const asJson = (body, headers = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
});

async function connect() {
  const server = new URLSearchParams(location.search).get('server');
  const metadata = await answer('discovery', `${server}/.well-known/oauth-authorization-server`);
  const client = await answer('registration', metadata.registration_endpoint, asJson({
    client_name: 'A page elsewhere',
    redirect_uris: [here],
    token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  }));
  const flow = { server, metadata, client: client.client_id, verifier: random(), state: random() };
  sessionStorage.setItem(KEPT, JSON.stringify(flow));
  const asked = new URLSearchParams({
    response_type: 'code',
    client_id: flow.client,
    redirect_uri: here,
    scope: SCOPE,
    state: flow.state,
    code_challenge: await challengeOf(flow.verifier),
    code_challenge_method: 'S256',
    resource: `${server}/mcp`,
  });
  location.assign(`${metadata.authorization_endpoint}?${asked}`);
}

async function comeBack(told) {
  const flow = JSON.parse(sessionStorage.getItem(KEPT));
  sessionStorage.removeItem(KEPT);
  history.replaceState(null, '', `${here}?server=${encodeURIComponent(flow.server)}`);
  if (told.get('state') !== flow.state) throw new Error('the state is another one');
  if (told.get('iss') !== flow.metadata.issuer) throw new Error('the issuer is another one');
  if (told.has('error')) throw new Error(`authorization: ${told.get('error')}`);
  const given = await answer('token', flow.metadata.token_endpoint, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: told.get('code'),
      client_id: flow.client,
      redirect_uri: here,
      code_verifier: flow.verifier,
      resource: `${flow.server}/mcp`,
    }),
  });
  token = { server: flow.server, access: given.access_token };
  by('remember').hidden = false;
  by('state').textContent = `connected: ${given.scope}`;
}

async function storeAndFind(content) {
  const authorization = `Bearer ${token.access}`;
  const api = `${token.server}/api/v1`;
  await answer('store', `${api}/memories`, asJson({ content }, { authorization }));
  const found = await answer('find', `${api}/search?query=${encodeURIComponent(content)}`, { headers: { authorization } });
  by('found').replaceChildren(...found.results.map((row) => {
    const item = document.createElement('li');
    item.textContent = row.snippet;
    return item;
  }));
  by('state').textContent = 'found';
}

// For tests: what a page may do with a token that it has got elsewhere.
window.useToken = (server, access) => {
  token = { server, access };
};

const trying = async (work) => {
  by('error').textContent = '';
  try {
    await work();
  } catch (error) {
    by('error').textContent = error.message;
  }
};

window.storeAndFind = (content) => trying(() => storeAndFind(content));
by('connect').addEventListener('click', () => trying(connect));
by('remember').addEventListener('submit', (event) => {
  event.preventDefault();
  trying(() => storeAndFind(by('content').value));
});

const told = new URLSearchParams(location.search);
if (told.has('state')) trying(() => comeBack(told));
