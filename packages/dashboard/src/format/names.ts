import { locale } from './numbers.ts'

const countries = new Intl.DisplayNames([locale], { type: 'region', fallback: 'none' })

/** The name of a country by its two letters; undefined for codes that name none. */
export function countryName(code: string): string | undefined {
  try {
    return /^[A-Z]{2}$/.test(code) ? countries.of(code) : undefined
  } catch {
    return undefined
  }
}

const conjunction = new Intl.ListFormat(locale, { type: 'conjunction' })
const disjunction = new Intl.ListFormat(locale, { type: 'disjunction' })

/** `a, b and c`. */
export const andList = (texts: readonly string[]): string => conjunction.format(texts)
/** `a, b or c`. */
export const orList = (texts: readonly string[]): string => disjunction.format(texts)
