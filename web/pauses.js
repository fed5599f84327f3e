/*
 * pauses.js - pausing and resuming what has a path in the API: a subscription, a schedule.
 */
import {inert} from './format.js';
import * as dialogs from './dialogs.js';
import {post} from './server.js';

export function pauseDialog(page, path, name, words) {
    dialogs.form(`Pause ${inert(name)}`, {
        words,
        fields: [{name: 'reason', label: 'Reason', note: 'shown beside its name'}],
        action: 'Pause',
        run: async ({reason}) => {
            await post(page.namespace, `${path}/pause`, reason ? {reason} : {});
            dialogs.say(`${inert(name)} is paused.`);
            page.reload();
        },
    });
}

export function resume(page, path, name) {
    return dialogs.act(async () => {
        await post(page.namespace, `${path}/resume`);
        page.reload();
    }, `${inert(name)} goes on.`);
}
