import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describeWith } from './describe-with.ts'

/** For suites with certificates, which openssl makes. */
export const describeWithOpenssl = describeWith('openssl', hasOpenssl())

function hasOpenssl(): boolean {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** PEM files of a certificate of its own authority and of its key. */
export interface TestCertificate {
  cert: string
  key: string
}

/** Makes a certificate for localhost and 127.0.0.1 in `folder`; `days` below 0: it has expired. */
export function makeCertificate(folder: string, name: string, days = 2): TestCertificate {
  const [cert, key, request] = [`${name}.pem`, `${name}.key`, `${name}.csr`].map((file) => join(folder, file)) as [
    string,
    string,
    string,
  ]
  const run = (args: readonly string[]) => execFileSync('openssl', args, { stdio: 'ignore' })
  const names = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
  run(['req', '-new', '-newkey', 'rsa:2048', '-nodes', ...names, '-keyout', key, '-out', request])
  // "openssl req -x509" refuses days below 0.
  const sign = ['-signkey', key, '-copy_extensions', 'copyall', '-days', String(days)]
  run(['x509', '-req', '-in', request, ...sign, '-out', cert])
  return { cert, key }
}
