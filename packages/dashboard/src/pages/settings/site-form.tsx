import { useState } from 'preact/hooks'
import { canonicalTimeZone, retentionDaysMax, type SiteSettings } from '@sluice/contracts/sites'
import { changedFields } from '../../api/changed-fields.ts'
import { fieldErrors } from '../../api/field-errors.ts'
import { useApi, useOperationMutation } from '../../api/hooks.ts'
import { zoneNames } from '../../app/zones.ts'
import { useSite } from '../../state/session.tsx'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { Combobox } from '../../ui/combobox.tsx'
import { Field, TextField } from '../../ui/field.tsx'
import { ConfirmDialog } from '../../ui/form-dialog.tsx'
import { ErrorPanel } from '../../ui/states.tsx'
import { texts } from './messages.ts'

const formFields = ['name', 'timezone', 'conversion_event', 'retention_days']

/** Days as they were typed: null for nothing, undefined for what is not a number of days. */
function daysOf(text: string): number | null | undefined {
  if (text.trim() === '') return null
  const days = Number(text)
  return Number.isInteger(days) && days >= 1 && days <= retentionDaysMax ? days : undefined
}

/** The settings while they are edited. */
interface Draft {
  name: string
  zone: string
  conversion: string
  days: string
}

const draftOf = (site: SiteSettings): Draft => ({
  name: site.name,
  zone: site.timezone,
  conversion: site.conversion_event ?? '',
  days: String(site.retention_days ?? ''),
})

/**
 * The settings that can be changed. They follow the site's record, which is refetched, until one of them is edited.
 */
export function SiteForm() {
  const site = useSite()
  const params = { site_id: site.site_id }
  const update = useOperationMutation('updateSite', ['getSite', 'listSites'])
  const observed = useApi('properties', { query: params })
  const [edited, setEdited] = useState<{ opened: SiteSettings; draft: Draft }>()
  const { opened, draft } = edited ?? { opened: site, draft: draftOf(site) }
  const { name, zone, conversion, days } = draft
  const set = (patch: Partial<Draft>) => {
    setEdited((now = { opened: site, draft: draftOf(site) }) => ({ ...now, draft: { ...now.draft, ...patch } }))
  }
  const [isTried, setTried] = useState(false)
  const [isSure, setSure] = useState(false)
  const retention = daysOf(days)
  const errors = fieldErrors(update.error, formFields)
  const types = observed.data?.properties.find((each) => each.name === 'event_type')?.values ?? []
  const problems = {
    name: name.trim() === '' ? texts.missingName : undefined,
    timezone: canonicalTimeZone(zone) === undefined ? texts.wrongZone : undefined,
    retention_days: retention === undefined ? texts.wrongDays : undefined,
  }
  const problemOf = (field: keyof typeof problems) => (isTried ? problems[field] : undefined) ?? errors.forField(field)
  const body: SiteSettings = {
    name: name.trim(),
    timezone: zone,
    conversion_event: conversion.trim() === '' ? null : conversion.trim(),
    retention_days: retention ?? null,
  }
  const changes = changedFields(body, opened)
  const isChanged = days !== draftOf(opened).days || Object.keys(changes).length > 0
  const isShorter =
    typeof changes.retention_days === 'number' && changes.retention_days < (site.retention_days ?? Infinity)
  const save = async () => {
    const saved = await update.run({ params, body: changes })
    // Text that was typed meanwhile stays.
    setEdited((now) =>
      now === undefined || now === edited
        ? undefined
        : { opened: saved, draft: { ...draftOf(saved), ...changedFields(now.draft, draft) } },
    )
    setSure(false)
    toast(texts.saved)
  }
  const submit = async () => {
    setTried(true)
    if (Object.values(problems).some((problem) => problem !== undefined)) return
    if (isShorter) setSure(true)
    else await save()
  }
  return (
    <form
      class="stack"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        // The change's own state shows its error.
        if (!update.isBusy) submit().catch(() => undefined)
      }}
    >
      <TextField
        label={texts.name}
        value={name}
        onInput={(text) => {
          set({ name: text })
        }}
        autocomplete="off"
        error={problemOf('name')}
      />
      <Field label={texts.zone} hint={texts.zoneHint} error={problemOf('timezone')}>
        {(attributes) => (
          <Combobox
            attributes={attributes}
            value={zone}
            options={zoneNames().map((value) => ({ value, label: value }))}
            onChange={(value) => {
              set({ zone: value })
            }}
          />
        )}
      </Field>
      <Field label={texts.conversion} hint={texts.conversionHint} error={errors.forField('conversion_event')}>
        {(attributes) => (
          <Combobox
            attributes={attributes}
            isFree
            value={conversion}
            placeholder="purchase"
            options={types.map(({ value }) => ({ value, label: value }))}
            onChange={(value) => {
              set({ conversion: value })
            }}
          />
        )}
      </Field>
      <TextField
        label={texts.retention}
        hint={texts.retentionHint}
        inputMode="numeric"
        value={days}
        onInput={(text) => {
          set({ days: text })
        }}
        autocomplete="off"
        error={problemOf('retention_days')}
      />
      {isSure ? null : <ErrorPanel error={errors.rest} />}
      <div class="row">
        <Button kind="primary" type="submit" isBusy={update.isBusy} disabled={!isChanged}>
          {texts.save}
        </Button>
        {isChanged ? (
          <Button
            kind="quiet"
            onClick={() => {
              setEdited(undefined)
              update.reset()
            }}
          >
            {texts.discard}
          </Button>
        ) : null}
      </div>
      {isSure ? (
        <ConfirmDialog
          title={texts.shorterTitle}
          submit={texts.shorterButton}
          isBusy={update.isBusy}
          error={update.error}
          onSubmit={save}
          onClose={() => setSure(false)}
          typed={site.site_id}
        >
          <p>{texts.shorter(body.retention_days ?? 0)}</p>
        </ConfirmDialog>
      ) : null}
    </form>
  )
}
