import type { ApiRequest } from '../api/request.ts'

const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`

/**
 * A request as a curl command for a shell, with the address and the key in `$SLUICE_URL` and `$SLUICE_KEY`: a command
 * never holds a secret.
 */
export function toCurl({ method, path, body }: ApiRequest): string {
  const lines = [
    `curl -sS "$SLUICE_URL"${quoted(path)}`,
    ...(method === 'GET' || (method === 'POST' && body !== undefined) ? [] : [`-X ${method}`]),
    '-H "Authorization: Bearer $SLUICE_KEY"',
    ...(body === undefined ? [] : [`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`]),
  ]
  return lines.join(' \\\n  ')
}
