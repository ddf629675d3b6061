import { readFileSync } from 'node:fs'

/**
 * Reads the PEM file that the parameter `ca` of an engine's URL names; null: the system's certificates are trusted.
 * Returns TLS options, or undefined when the file can't be read. What is wrong is added to `mistakes` as a phrase.
 */
export function readCaFile(file: string | null, mistakes: string[]): { ca: string | undefined } | undefined {
  if (file === null) return { ca: undefined }
  try {
    const ca = readFileSync(file, 'utf8')
    if (!ca.includes('-----BEGIN CERTIFICATE-----')) mistakes.push(`"ca": ${file} holds no PEM certificate`)
    return { ca }
  } catch (error) {
    mistakes.push(`"ca": ${(error as NodeJS.ErrnoException).message}`)
    return undefined
  }
}
