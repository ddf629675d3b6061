import { type ImportType, importTypes } from '@sluice/contracts/imports'
import { grants, type Scope } from '@sluice/contracts/scopes'

/** The types of imports that a key may make and see: those of users belong to administrators. */
export function permittedImportTypes(held: readonly Scope[]): readonly ImportType[] {
  return importTypes.filter((type) => type !== 'users' || grants(held, 'admin'))
}
