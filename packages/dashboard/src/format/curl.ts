import type { ApiRequest } from '../api/request.ts'

const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`

/**
 * A request as a curl command for a shell. `origin` is the address of Sluice, `https://sluice.example`. The key is in
 * `$SLUICE_KEY`: a command never holds a secret.
 */
export function toCurl({ method, path, body }: ApiRequest, origin: string): string {
  const lines = [
    `curl -sS ${quoted(origin + path)}`,
    ...(method === 'GET' || (method === 'POST' && body !== undefined) ? [] : [`-X ${method}`]),
    '-H "Authorization: Bearer $SLUICE_KEY"',
    ...(body === undefined ? [] : [`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`]),
  ]
  return lines.join(' \\\n  ')
}
