/*
 * theme.js - light or dark, before anything is drawn. Without a choice of the reader's it is what
 * the system prefers; the choice is kept in this browser.
 */
(function () {
    'use strict';
    try {
        var chosen = localStorage.getItem('holdfast-theme');
        if (chosen === 'light' || chosen === 'dark') {
            document.documentElement.setAttribute('data-theme', chosen);
        }
    } catch (error) {
        /* A browser that keeps nothing has the system's. */
    }
})();
