import { type ExportType, exportTypes } from '@sluice/contracts/exports'
import { grants, type Scope } from '@sluice/contracts/scopes'

/** The scope that exports of a type need: who may read users' fields may export them. */
export function scopeOfType(type: ExportType): Scope {
  return type === 'users' || type === 'cohort' ? 'cohorts:read' : 'stats:read'
}

/** The types of exports that a key may make and see. */
export function permittedExportTypes(held: readonly Scope[]): readonly ExportType[] {
  return exportTypes.filter((type) => grants(held, scopeOfType(type)))
}
